mod fixture;
mod plan;
