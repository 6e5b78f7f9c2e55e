//! Transactions that are drawn beforehand and run again and again, so that drawing is not measured,
//! as in YCSB here and in the engine of "Staring into the Abyss".
//!
//! The pool keeps the inputs; the values for the database, which are larger, are computed from an
//! input when its turn comes.

use atoll::machine::{Machine, Native};

use super::args::{Mix, TpccArgs};
use super::field::Field;
use super::population::Size;
use super::random::TpccRandom;
use super::{delivery, new_order, order_status, payment, stock_level};

/// A drawn transaction.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// Its input.
    pub input: Input,
    /// Whether it is rolled back at its end.
    pub gives_up: bool,
}

/// The input of a transaction of each type.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant)] // Most values have the largest variant.
pub enum Input {
    /// New-Order
    NewOrder(new_order::Input),
    /// Payment
    Payment(payment::Input),
    /// Order-Status
    OrderStatus(order_status::Input),
    /// Delivery
    Delivery(delivery::Input),
    /// Stock-Level
    StockLevel(stock_level::Input),
}

impl Input {
    /// Its type, a position in [`super::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::NewOrder(_) => 0,
            Self::Payment(_) => 1,
            Self::OrderStatus(_) => 2,
            Self::Delivery(_) => 3,
            Self::StockLevel(_) => 4,
        }
    }

    /// Whether it only reads.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::OrderStatus(_) | Self::StockLevel(_))
    }

    /// The partitions that it accesses, in order.
    pub fn partitions(&self, field: &Field, partitions: &mut Vec<u32>) {
        match self {
            Self::NewOrder(input) => input.partitions(field, partitions),
            Self::Payment(input) => input.partitions(field, partitions),
            Self::OrderStatus(input) => input.partitions(field, partitions),
            Self::Delivery(input) => input.partitions(field, partitions),
            Self::StockLevel(input) => input.partitions(field, partitions),
        }
    }
}

/// Draws transactions by the rules of the specification.
pub struct Drawer {
    random: TpccRandom,
    mix: Mix,
    /// The home warehouse; `None`: any.
    home: Option<i16>,
    abort_percent: u64,
    reduced: bool,
}

impl Drawer {
    /// A drawer for a thread with the home warehouse `home`.
    pub fn new(random: TpccRandom, args: &TpccArgs, home: Option<i16>) -> Self {
        let mix = args.mix.unwrap_or(Mix::STANDARD);
        Self { random, mix, home, abort_percent: args.abort_percent.into(), reduced: args.reduced }
    }

    /// A drawer of a mix.
    pub fn of_mix(random: TpccRandom, mix: Mix, home: Option<i16>) -> Self {
        Self { random, mix, home, abort_percent: 0, reduced: false }
    }

    /// Draws a transaction.
    pub fn draw(&mut self, size: Size) -> Drawn {
        let Self { random, mix, reduced, .. } = self;
        let kind = mix.kind(random.uniform(0, mix.total() - 1));
        let home = self.home.unwrap_or_else(|| random.uniform(1, size.warehouses.into()) as i16);
        let input = match kind {
            0 => Input::NewOrder(new_order::Input::draw(size, random, home, *reduced)),
            1 => Input::Payment(payment::Input::draw(size, random, home)),
            2 => Input::OrderStatus(order_status::Input::draw(size, random, home)),
            3 => Input::Delivery(delivery::Input::draw(random, home)),
            _ => Input::StockLevel(stock_level::Input::draw(random, home)),
        };
        let gives_up = self.abort_percent > 0 && random.percent(self.abort_percent);
        Drawn { input, gives_up }
    }
}

/// See the module.
pub struct Pool {
    drawn: Box<[Drawn]>,
    next: usize,
}

impl Pool {
    /// Draws `count` transactions, at least one.
    pub fn draw(drawer: &mut Drawer, size: Size, count: usize) -> Self {
        Self { drawn: (0..count.max(1)).map(|_| drawer.draw(size)).collect(), next: 0 }
    }

    /// The next transaction; after the last comes the first again.
    pub fn next(&mut self) -> Drawn {
        let drawn = self.drawn[self.next];
        self.next = if self.next + 1 == self.drawn.len() { 0 } else { self.next + 1 };
        let next = &raw const self.drawn[self.next];
        Native::prefetch(next.cast(), size_of::<Drawn>());
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Constants;
    use super::super::small;
    use super::*;

    #[test]
    fn transactions_come_again_in_turn_and_are_of_all_types_by_weight() {
        let loaded = small(3);
        let random = TpccRandom::new(9, Constants::of_load(9));
        let (mix, abort_percent) = (Mix::STANDARD, 20);
        let mut drawer = Drawer { random, mix, home: Some(2), abort_percent, reduced: false };
        const COUNT: usize = 5000;
        let mut pool = Pool::draw(&mut drawer, loaded.size(), COUNT);
        let first: Vec<String> = (0..COUNT).map(|_| format!("{:?}", pool.next())).collect();
        let (mut kinds, mut given_up) = ([0; 5], 0);
        for one in &first {
            let again = pool.next();
            assert_eq!(format!("{again:?}"), *one);
            kinds[again.input.kind()] += 1;
            given_up += usize::from(again.gives_up);
            let mut partitions = Vec::new();
            again.input.partitions(&loaded.field, &mut partitions);
            let home = loaded.field.tables.partition(2);
            assert!(partitions.contains(&home) && partitions.is_sorted(), "{partitions:?}");
        }
        // 45, 43, 4, 4 and 4 of a hundred, and 20 of a hundred roll back, each within four standard
        // deviations.
        for (seen, expected) in kinds.into_iter().zip([2250_i32, 2150, 200, 200, 200]) {
            let deviation = f64::from(expected).sqrt() * 4.0;
            assert!(f64::from(seen - expected).abs() < deviation, "{kinds:?}");
        }
        assert!((887..1113).contains(&given_up), "{given_up}");
    }
}
