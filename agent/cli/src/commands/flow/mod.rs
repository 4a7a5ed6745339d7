//! `farmhand flow`: tasks in dependency order on this machine; needs no database.

mod job_file;
mod run;
mod wait;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use farmhand_core::definition::{FlowSpec, Scripts};
use farmhand_core::flow::{Direction, Facilities, Selection, Task};
use farmhand_core::graph::Graph;

use super::{Exit, Failure, Outcome, out};

use farmhand_engine::flow::load::{LoadError, Source, load};
use farmhand_engine::flow::plan::{self, Plan};

#[derive(Args, Debug)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    command: FlowCommand,
}

#[derive(Subcommand, Debug)]
enum FlowCommand {
    /// Show order, levels, critical path, cycles and missing names; run nothing
    Plan(PlanArgs),
    /// Run the tasks, each as soon as what it waits for has ended
    Run(Box<run::RunArgs>),
    /// Make a directory of names to wait for and to mark, without a flow: between any two programs
    Init(wait::InitArgs),
    /// Sleep until others have ended or were marked; fails when one of them did not succeed
    Wait(wait::WaitArgs),
    /// Called from a task that goes on, say a daemon, or with names of `flow init`: what waits for it need wait no longer
    Mark(wait::MarkArgs),
    /// Print the graph for Graphviz, or for Mermaid
    Graph(GraphArgs),
}

/// Which tasks.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    /// A directory of annotated scripts, one shell file with annotated functions, or a job file (*.toml)
    #[arg(value_name = "DIR|FILE")]
    path: Option<PathBuf>,
    /// The flow of this job, of a job file with several
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Pairs `dependency dependent`, as tsort reads them; - is stdin
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,
    /// Plan for stopping: everything backwards
    #[arg(long)]
    stop: bool,
    /// Leave out scripts with this keyword
    #[arg(long, value_name = "KEYWORD")]
    skip: Vec<String>,
    /// Leave out scripts without this keyword
    #[arg(long, value_name = "KEYWORD")]
    keep: Vec<String>,
    /// How a name that no task provides counts
    #[arg(long, value_name = "WHAT", value_enum, default_value = "error")]
    missing: MissingNames,
    /// More `$facilities`, in the form of insserv.conf
    #[arg(long, value_name = "FILE")]
    facilities: Vec<PathBuf>,
    /// For other annotations than ours: called as `CMD SCRIPT` for each script of a directory, prints `KEY: value` lines
    #[arg(long, value_name = "CMD")]
    extract: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MissingNames {
    Error,
    Warn,
}

#[derive(Args, Debug)]
struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Print the graph for Graphviz
    #[arg(long, conflicts_with = "mermaid")]
    dot: bool,
    /// Print the graph for Mermaid
    #[arg(long)]
    mermaid: bool,
}

#[derive(Args, Debug)]
struct GraphArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// For Mermaid instead of Graphviz
    #[arg(long)]
    mermaid: bool,
}

/// Tasks, and what else was said of them.
struct Loaded {
    tasks: Vec<Task>,
    /// What the options say, and the job.
    source: SourceArgs,
    jobs: Option<u32>,
    preload: Option<PathBuf>,
    /// Places of the pools of its tasks.
    pools: BTreeMap<String, u32>,
}

pub(super) fn run(args: &FlowArgs, json: bool) -> Outcome {
    match &args.command {
        FlowCommand::Plan(args) => show_plan(args, json),
        FlowCommand::Run(args) => run::run(args, json),
        FlowCommand::Init(args) => wait::run_init(args, json),
        FlowCommand::Wait(args) => wait::run_wait(args, json),
        FlowCommand::Mark(args) => wait::run_mark(args),
        FlowCommand::Graph(args) => {
            let (Loaded { tasks, .. }, graph) = args.source.read()?;
            let plan = plan::plan(&tasks, &graph);
            let (language, text) = match args.mermaid {
                true => ("mermaid", plan::mermaid(&plan)),
                false => ("dot", plan::dot(&plan)),
            };
            if json {
                out::json(&serde_json::json!({"language": language, "text": text}));
            } else {
                out::raw(text.as_bytes());
            }
            Ok(Exit::Ok)
        }
    }
}

impl SourceArgs {
    /// The tasks and their graph, whatever is wrong with it.
    fn read(&self) -> Result<(Loaded, Graph), Failure> {
        if self.path.is_none() && self.edges.is_none() {
            return Err(
                Failure::usage("it is not said which flow").next("name a directory or a file, or --edges")
            );
        }
        let job_file = self.path.as_deref().filter(|path| job_file::is_job_file(path));
        if job_file.is_none() && self.job.is_some() {
            return Err(Failure::usage("--job is for job files").next("name a *.toml file"));
        }
        let loaded = match job_file {
            Some(path) => {
                let described = job_file::read(path, self.job.as_deref())?;
                let mut loaded = self.described(&described.flow)?;
                described.with_env(&mut loaded.tasks);
                loaded
            }
            None => Loaded {
                tasks: self.tasks_of(self.path.clone())?,
                source: self.clone(),
                jobs: None,
                preload: None,
                pools: BTreeMap::new(),
            },
        };
        let graph = graph(&loaded.tasks);
        Ok((loaded, graph))
    }

    /// What a job's definition says.
    fn described(&self, flow: &FlowSpec) -> Result<Loaded, Failure> {
        let source = self.with(&flow.scripts);
        let tasks = match &flow.dir {
            Some(dir) => source.tasks_of(Some(dir.into()))?,
            None if self.stop
                || self.extract.is_some()
                || self.edges.is_some()
                || !self.skip.is_empty()
                || !self.keep.is_empty() =>
            {
                return Err(
                    Failure::usage("--stop, --skip, --keep, --extract and --edges are for scripts").why(
                        "the tasks of a job file say their order themselves, and are neither started nor stopped",
                    ),
                );
            }
            None => flow.tasks(),
        };
        Ok(Loaded {
            tasks,
            source,
            jobs: flow.scripts.jobs,
            preload: flow.preload.clone().map(PathBuf::from),
            pools: flow.pools.clone(),
        })
    }

    /// The options, and what the job says.
    fn with(&self, scripts: &Scripts) -> Self {
        let mut all = self.clone();
        all.stop |= scripts.stop;
        all.skip.extend(scripts.skip.iter().cloned());
        all.keep.extend(scripts.keep.iter().cloned());
        all.facilities
            .extend(scripts.facilities.iter().map(PathBuf::from));
        all.extract = all.extract.or_else(|| scripts.extract.clone());
        if scripts.missing_warns {
            all.missing = MissingNames::Warn;
        }
        all
    }

    fn tasks_of(&self, path: Option<PathBuf>) -> Result<Vec<Task>, Failure> {
        if self.extract.is_some() && !path.as_ref().is_some_and(|path| path.is_dir()) {
            return Err(Failure::usage("--extract is for directories of scripts"));
        }
        let source = Source {
            path,
            edges: self.edges.clone(),
            extract: self.extract.clone(),
        };
        let (tasks, doubtful) = load(&source, &self.selection()?)?;
        for found in doubtful {
            out::note(&format!("warning: {found}: {}", found.fix));
        }
        Ok(tasks)
    }

    fn direction(&self) -> Direction {
        if self.stop {
            Direction::Stop
        } else {
            Direction::Start
        }
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let mut facilities = Facilities::default();
        for path in &self.facilities {
            let text = std::fs::read_to_string(path)
                .map_err(|e| Failure::broken(format!("{} cannot be read", path.display())).why(e))?;
            facilities.extend(Facilities::parse(&text));
        }
        Ok(Selection {
            direction: self.direction(),
            skip: self.skip.clone(),
            keep: self.keep.clone(),
            facilities,
        })
    }

    /// Says what is wrong with the graph.
    /// Errors: Cycles, and missing names unless they are only to be warned of.
    fn judge(&self, graph: &Graph) -> Result<(), Failure> {
        let cycles = graph.cycles();
        if !cycles.is_empty() {
            let what = match cycles.len() {
                1 => "the tasks wait for each other in a cycle".to_owned(),
                n => format!("the tasks wait for each other in {n} cycles"),
            };
            let failure = Failure::broken(what).next("take one of the lines out of each cycle");
            return Err(cycles.into_iter().fold(failure, Failure::why));
        }
        let missing = graph.missing();
        let said = missing
            .iter()
            .map(|m| format!("{}: {} names `{}`, which nobody provides", m.at, m.task, m.name));
        if missing.is_empty() {
            return Ok(());
        }
        if self.missing == MissingNames::Warn {
            for said in said {
                out::note(&format!("warning: {said}"));
            }
            return Ok(());
        }
        let failure = Failure::broken("names are missing")
            .next("provide them, correct the names, or add --missing warn to go on without them");
        Err(said.fold(failure, Failure::why))
    }
}

/// The graph of the tasks; warns of what does not count in it, or not as its author may think.
fn graph(tasks: &[Task]) -> Graph {
    let (graph, broken) = plan::graph(tasks);
    for step in broken {
        out::note(&format!(
            "warning: {step} is ignored: it closes a cycle in which nothing is required"
        ));
    }
    for collision in graph.collisions() {
        out::note(&format!("warning: {collision}"));
    }
    graph
}

fn show_plan(args: &PlanArgs, json: bool) -> Outcome {
    let (Loaded { tasks, source, .. }, graph) = args.source.read()?;
    let plan = plan::plan(&tasks, &graph);
    if args.dot || args.mermaid {
        draw(&plan, args.mermaid);
    } else if json {
        out::json(&plan);
    } else {
        table(&plan);
    }
    source.judge(&graph)?;
    Ok(Exit::Ok)
}

fn draw(plan: &Plan, mermaid: bool) {
    let text = if mermaid {
        plan::mermaid(plan)
    } else {
        plan::dot(plan)
    };
    out::raw(text.as_bytes());
}

fn table(plan: &Plan) {
    let by_name = |name: &String| plan.tasks.iter().find(|t| t.name == *name);
    let rows = plan.order.iter().filter_map(by_name).map(|task| {
        vec![
            task.level.map_or_else(String::new, |l| l.to_string()),
            task.name.clone(),
            if plan.critical_path.contains(&task.name) {
                "*"
            } else {
                ""
            }
            .to_owned(),
            task.after.join(" "),
        ]
    });
    out::table("LEVEL|TASK|CRITICAL|AFTER", rows);
    let left_out = plan
        .tasks
        .iter()
        .filter_map(|t| t.left_out.as_ref().map(|why| (&t.name, why)));
    for (name, why) in left_out {
        out::note(&format!("{name} is left out: {why}"));
    }
    let locked = plan
        .tasks
        .iter()
        .filter(|t| !t.locks.is_empty() && t.left_out.is_none());
    let locked: Vec<String> = locked
        .map(|t| format!("{} ({})", t.name, t.locks.join(" ")))
        .collect();
    if !locked.is_empty() {
        let locked = locked.join(", ");
        out::note(&format!("locks, of this user on the node that runs it: {locked}"));
    }
    let widest = plan.levels.iter().map(Vec::len).max().unwrap_or(0);
    out::note(&format!(
        "{}, {}, at most {widest} on one; critical path of {}: {}",
        out::count(plan.order.len(), "task"),
        out::count(plan.levels.len(), "level"),
        plan.critical_path.len(),
        plan.critical_path.join(" ")
    ));
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let failure = Failure::broken(error.to_string());
        match error {
            LoadError::Io { source, .. } => failure.why(source),
            LoadError::Malformed(list) => {
                let fix = list.first().map(|m| m.fix.clone()).unwrap_or_default();
                list.into_iter().fold(failure, Failure::why).next(fix)
            }
            LoadError::Extract { why, .. } => failure.why(why).next(
                "it is called with a script, and prints lines such as `PROVIDE: net` and `REQUIRE: disk`",
            ),
            LoadError::Empty { .. } => failure
                .why("there is neither a file with the run bit nor one with annotations")
                .next("annotate scripts with `# PROVIDE:` and `# REQUIRE:`, or make them executable"),
        }
    }
}
