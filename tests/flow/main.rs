mod fifo;
mod fixture;
mod plan;
mod run;
