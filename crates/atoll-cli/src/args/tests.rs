//! Tests of the command line as a whole.

use std::time::Duration;

use clap::CommandFactory;

use super::sql::parse_delimiter;
use super::*;

#[test]
fn the_command_line_is_consistent_and_every_command_has_examples() {
    let command = Cli::command();
    command.clone().debug_assert();
    for sub in command.get_subcommands() {
        let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:"), "{} has no examples", sub.get_name());
    }
}

/// The checks of `debug_assert`, which do nothing where debug assertions are off.
fn check_ids(command: &clap::Command) {
    let mut ids: Vec<_> = command.get_arguments().map(|one| one.get_id().as_str()).collect();
    let mut longs: Vec<_> = command.get_arguments().filter_map(|one| one.get_long()).collect();
    for names in [&mut ids, &mut longs] {
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "of {}", command.get_name());
    }
    command.get_subcommands().for_each(check_ids);
}

#[test]
fn no_command_has_two_options_of_one_name() {
    let mut command = Cli::command();
    command.build();
    check_ids(&command);
}

/// Commands without subcommands, and the words that lead there.
fn leaves(command: &clap::Command, words: &str, out: &mut Vec<(String, clap::Command)>) {
    for sub in command.get_subcommands() {
        let words = format!("{words} {}", sub.get_name());
        leaves(sub, &words, out);
        if sub.get_subcommands().next().is_none() || sub.get_arguments().next().is_some() {
            out.push((words, sub.clone()));
        }
    }
}

#[test]
fn every_command_that_opens_a_database_takes_a_scheme_and_its_help_knows_all_of_them() {
    // These ask or read databases of other processes, read files, or need no database.
    let others = [
        " attach",
        " backup",
        " snapshots",
        " list",
        " nodes",
        " config check",
        " check",
        " log",
        " bench timestamps",
        " bench floor",
    ];
    let mut commands = Vec::new();
    leaves(&Cli::command(), "", &mut commands);
    assert!(commands.len() > 15, "{}", commands.len());
    for (words, command) in commands {
        let takes = command.get_arguments().any(|one| one.get_long() == Some("scheme"));
        assert_eq!(takes, !others.contains(&words.as_str()), "atoll{words}");
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for named in help.split("--scheme ").skip(1) {
            let name = named.split_whitespace().next().unwrap_or_default();
            assert!(name.parse::<atoll::SchemeKind>().is_ok(), "atoll{words}: {name}");
        }
    }
    let mut command = Cli::command();
    let sql = command.find_subcommand_mut("sql").expect("there is one");
    let help = sql.render_long_help().to_string();
    for scheme in atoll::SchemeKind::ALL {
        assert!(help.contains(scheme.name()), "{scheme}");
    }
}

#[test]
fn global_options_may_stand_before_and_behind_the_command() {
    for line in
        [["atoll", "--memory", "4GiB", "sql", "bank"], ["atoll", "sql", "bank", "--memory", "4GiB"]]
    {
        let cli = Cli::try_parse_from(line).expect("both orders are right");
        assert_eq!(cli.global.memory, Some(4 << 30));
    }
}

#[test]
fn a_memory_budget_is_a_size_and_needs_a_folder_or_a_cold_node() {
    let line = ["atoll", "sql", "bank", "--memory-budget", "4GiB", "--data", "bank"];
    let Command::Sql(args) = Cli::try_parse_from(line).expect("parses").command else {
        panic!("it is sql")
    };
    assert_eq!(args.owner.memory_budget, Some(4 << 30));
    assert!(Cli::try_parse_from(&line[..5]).is_err(), "without a folder");
    let line = ["atoll", "sql", "bank", "--memory-budget", "4GiB", "--cold-node", "2"];
    let cli = Cli::try_parse_from(line).expect("parses");
    let Command::Sql(args) = &cli.command else { panic!("it is sql") };
    let options = cli.global.database_options(&args.owner);
    assert_eq!(options.cold_node, Some(atoll::machine::NodeId(2)));
    let alone = ["atoll", "sql", "bank", "--cold-node", "2"];
    assert!(Cli::try_parse_from(alone).is_err(), "without a budget");
}

#[test]
fn a_delimiter_is_one_character() {
    assert_eq!(parse_delimiter("\\t"), Ok(b'\t'));
    assert_eq!(parse_delimiter(";"), Ok(b';'));
    assert!(parse_delimiter("ab").is_err() && parse_delimiter("\"").is_err());
}

#[test]
fn checkpoints_by_time_are_for_databases_in_a_folder() {
    let parse = |more: &[&str]| {
        let line = ["atoll", "sql", "bank"].iter().chain(more);
        let cli = Cli::try_parse_from(line).ok()?;
        let Command::Sql(args) = &cli.command else { panic!("it is sql") };
        Some(cli.global.database_options(&args.owner).checkpoint_interval)
    };
    let of = |time| parse(&["--data", "d", "--checkpoint-every", time]);
    assert_eq!(parse(&["--data", "d"]), Some(None));
    assert_eq!(of("90"), Some(Some(Duration::from_secs(90))));
    assert_eq!(of("1h30m"), Some(Some(Duration::from_secs(5400))));
    assert_eq!((of("0"), of("-1"), of("soon")), (None, None, None));
    assert_eq!(parse(&["--checkpoint-every", "90"]), None);
}

#[test]
fn limits_are_refused_where_no_database_is_owned() {
    let cli = Cli::try_parse_from(["atoll", "list", "--memory", "1GiB"]).expect("parses");
    let error = cli.global.refuse_limits("list").expect_err("it owns none");
    assert!(error.to_string().contains("--memory"), "{error}");
}
