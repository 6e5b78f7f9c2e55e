//! The arguments of `atoll torture`.

use clap::Args;

use atoll_bench::BenchError;

/// Runs transactions against each other in seeded schedules and looks for anomalies.
#[derive(Debug, Clone, Args)]
pub struct TortureArgs {
    /// Scheme, or `all`
    #[arg(long, default_value = "all", value_name = "NAME")]
    pub scheme: String,
    /// Schedules of each scheme
    #[arg(long, default_value_t = 1000, value_name = "N", conflicts_with = "native")]
    pub seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first_seed: u64,
    /// Use threads of this machine instead of a schedule; runs differ
    #[arg(long)]
    pub native: bool,
    /// Threads that run transactions, with --native
    #[arg(long, default_value_t = 4, requires = "native")]
    pub threads: usize,
    /// Seconds of each scheme, with --native
    #[arg(long, default_value_t = 5.0, requires = "native")]
    pub seconds: f64,
    /// Threads that try seeds in parallel [default: one for each CPU]
    #[arg(long, conflicts_with = "native")]
    pub jobs: Option<usize>,
    /// Anomalies after which a scheme is abandoned
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub anomalies_max: usize,
}

impl TortureArgs {
    /// Checks the arguments.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |what, value: String, need| Err(BenchError::Argument { what, value, need });
        if !(1..=64).contains(&self.threads) {
            return refuse("--threads", self.threads.to_string(), "1 to 64 will do");
        }
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            let need = "it must be more than 0 and at most 86400";
            return refuse("--seconds", self.seconds.to_string(), need);
        }
        if self.jobs.is_some_and(|jobs| !(1..=256).contains(&jobs)) {
            let jobs = self.jobs.unwrap_or_default().to_string();
            return refuse("--jobs", jobs, "1 to 256 will do");
        }
        if self.seeds == 0 {
            return refuse("--seeds", self.seeds.to_string(), "at least one is needed");
        }
        if self.anomalies_max == 0 {
            return refuse("--anomalies-max", "0".to_owned(), "at least one is needed");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TortureArgs,
    }

    #[test]
    fn options_of_one_way_are_refused_with_the_other() {
        let parse = |line: &[&str]| Line::try_parse_from(line.iter().copied());
        let args = parse(&["torture"]).expect("nothing is needed").args;
        assert!(args.check().is_ok() && args.seeds == 1000 && !args.native);
        assert!(parse(&["torture", "--native", "--threads", "2", "--seconds", "0.5"]).is_ok());
        assert!(parse(&["torture", "--threads", "2"]).is_err());
        assert!(parse(&["torture", "--native", "--seeds", "2"]).is_err());
        let none = parse(&["torture", "--seeds", "0"]).expect("a number").args.check();
        assert!(none.expect_err("that is nothing").to_string().contains("--seeds"));
    }
}
