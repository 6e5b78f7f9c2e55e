//! The arguments of TPC-C.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};

use crate::error::BenchError;
use crate::oltp::{OltpArgs, require};
use crate::tpcc::population::Size;

/// The wholesale supplier of TPC-C: all five transactions, and the consistency conditions
/// afterwards.
#[derive(Debug, Clone, Args, Serialize)]
pub struct TpccArgs {
    /// The arguments that all workloads share.
    #[command(flatten)]
    #[serde(flatten)]
    pub oltp: OltpArgs,
    /// Warehouses
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub warehouses: u16,
    /// Weights of the transactions, such as new-order=45,payment=43; `standard` is 45/43/4/4/4,
    /// `reduced` is new-order and payment in equal parts, as in "Staring into the Abyss" [default:
    /// standard, with --reduced reduced]
    #[arg(long)]
    pub mix: Option<Mix>,
    /// Run new-order and payment without their inserts and rollbacks, as the engine of "Staring
    /// into the Abyss" does, for comparison
    #[arg(long)]
    pub reduced: bool,
    /// Run the transactions as SQL statements, each on a session of its own
    #[arg(long, conflicts_with_all = ["reduced", "abort_percent"])]
    pub sql: bool,
    /// Home warehouses of a thread's transactions
    #[arg(long, value_enum, default_value = "worker", value_name = "WHICH")]
    pub home: Home,
    /// Percentage of transactions of any type that are rolled back after their last write, as
    /// orders of unknown items are
    #[arg(long, default_value_t = 0, value_name = "N", hide = true)]
    pub abort_percent: u8,
    /// Customers of a district, and its initial orders
    #[arg(long, default_value_t = 3000, hide = true)]
    pub customers_per_district: u32,
    /// Items
    #[arg(long, default_value_t = 100_000, hide = true)]
    pub items: u32,
}

/// The home warehouses of a thread's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// One: threads are assigned to the warehouses round robin, like terminals
    Worker,
    /// Any, uniformly
    Any,
}

/// Names of the transactions, in order.
pub const KINDS: &[&str] = &["new-order", "payment", "order-status", "delivery", "stock-level"];

/// Weights of the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix(pub [u32; 5]);

impl Mix {
    /// The mix of the specification.
    pub const STANDARD: Self = Self([45, 43, 4, 4, 4]);
    /// The mix of "Staring into the Abyss".
    pub const REDUCED: Self = Self([50, 50, 0, 0, 0]);

    /// The transaction type of a number below [`Mix::total`].
    pub fn kind(&self, mut number: u32) -> usize {
        let found = self.0.iter().position(|weight| {
            let here = number < *weight;
            number = number.saturating_sub(*weight);
            here
        });
        found.unwrap_or(0)
    }

    /// Sum of the weights.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "standard" => return Ok(Self::STANDARD),
            "reduced" => return Ok(Self::REDUCED),
            _ => {}
        }
        let mut mix = Self([0; 5]);
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(|| {
                format!("\"{part}\" is not NAME=WEIGHT; or use `standard` or `reduced`")
            })?;
            let at = KINDS.iter().position(|kind| *kind == name).ok_or_else(|| {
                format!("there is no transaction \"{name}\"; use {}", KINDS.join(", "))
            })?;
            let number = weight.parse().ok().filter(|weight| *weight <= 1_000_000);
            mix.0[at] = number.ok_or_else(|| {
                format!("the weight of {name} is \"{weight}\"; use a number from 0 to 1000000")
            })?;
        }
        if mix.total() == 0 { Err("all weights are 0".to_owned()) } else { Ok(mix) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = KINDS
            .iter()
            .zip(self.0)
            .filter(|(_, weight)| *weight > 0)
            .map(|(kind, weight)| format!("{kind}={weight}"))
            .collect();
        f.write_str(&parts.join(","))
    }
}

impl Serialize for Mix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TpccArgs {
    /// The sizes of the tables.
    pub fn size(&self) -> Size {
        let (customers, items) = (self.customers_per_district, self.items);
        Size { warehouses: self.warehouses, customers, items }
    }

    /// Checks the arguments and completes the mix.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn complete(&self) -> Result<Self, BenchError> {
        self.oltp.check()?;
        let warehouses = self.warehouses;
        let need = "1 to 32767 will do";
        require((1..=32_767).contains(&warehouses), "--warehouses", warehouses, need)?;
        let customers = self.customers_per_district;
        let need = "10 to 3000 will do";
        require((10..=3000).contains(&customers), "--customers-per-district", customers, need)?;
        let need = "100 to 100000 will do";
        require((100..=100_000).contains(&self.items), "--items", self.items, need)?;
        let percent = self.abort_percent;
        require(percent <= 100, "--abort-percent", percent, "0 to 100 will do")?;
        let usual = if self.reduced { Mix::REDUCED } else { Mix::STANDARD };
        let mix = self.mix.unwrap_or(usual);
        let possible = !self.reduced || mix.0[2..].iter().all(|weight| *weight == 0);
        let need = "--reduced has new-order and payment only";
        require(possible, "--mix", mix.to_string(), need)?;
        Ok(Self { mix: Some(mix), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::Mix;

    #[test]
    fn a_mix_is_read_and_written_by_the_names_of_the_transactions() {
        let mix: Mix = "new-order=10,stock-level=5".parse().expect("right");
        assert_eq!(mix, Mix([10, 0, 0, 0, 5]));
        assert_eq!(mix.to_string().parse(), Ok(mix));
        assert_eq!("reduced".parse(), Ok(Mix::REDUCED));
        for wrong in ["", "new-order", "newest=1", "payment=-1", "payment=0"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_number_below_the_total_stands_for_a_transaction_by_weight() {
        let mix = Mix::STANDARD;
        let mut seen = [0; 5];
        (0..mix.total()).for_each(|number| seen[mix.kind(number)] += 1);
        assert_eq!(seen, mix.0);
    }
}
