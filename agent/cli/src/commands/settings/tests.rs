use super::*;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let home = [("HOME", "/home/x"), ("FARMHAND_DATABASE_URL", "postgresql://h/f")];
    home.iter()
        .chain(pairs)
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn refused(args: &AgentArgs, env: &BTreeMap<String, String>) -> String {
    let failure = load(args, env).unwrap_err();
    assert_eq!(failure.exit, super::super::Exit::Usage);
    failure.to_string()
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let file = file("slots = 1\naddress = 'file'\nlease_ttl = '9s'\nlabels = { a = 'file', b = 'file' }\n");
    let args = AgentArgs {
        config: Some(file.path().to_owned()),
        slots: Some("3".to_owned()),
        label: vec!["a=flag".to_owned()],
        ..AgentArgs::default()
    };
    let env = env(&[
        ("FARMHAND_SLOTS", "2"),
        ("FARMHAND_ADDRESS", "env"),
        ("FARMHAND_LABEL", "a=env,c=env"),
    ]);
    let config = load(&args, &env).unwrap();
    assert_eq!(config.slots, 3);
    assert_eq!(config.address, "env");
    assert_eq!(config.lease_ttl, Duration::from_secs(9));
    let labels: Vec<_> = config.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(labels, ["a=flag", "b=file", "c=env"]);
}

#[test]
fn the_address_defaults_to_the_name_and_the_name_to_the_hosts() {
    let args = AgentArgs {
        node_name: Some("n1".to_owned()),
        ..AgentArgs::default()
    };
    assert_eq!(load(&args, &env(&[])).unwrap().address, "n1");
    let config = load(&AgentArgs::default(), &env(&[])).unwrap();
    assert_eq!(config.node_name, gethostname::gethostname().to_string_lossy());
}

#[test]
fn no_layer_may_set_the_label_that_every_node_has() {
    let file = file("address = 'a'\n[labels]\nzone = 'x'\nnode = 'b'\n");
    let args = AgentArgs {
        config: Some(file.path().to_owned()),
        label: vec!["node=c".to_owned()],
        ..AgentArgs::default()
    };
    let text = refused(&args, &env(&[("FARMHAND_LABEL", "rack=7, node = d")]));
    let own = "every node has this label by itself, with its address as value";
    for part in [
        "3 mistakes",
        &format!("--label \"node=c\": {own}; remove it, --address names the node"),
        &format!("FARMHAND_LABEL \" node = d\": {own}"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn every_mistake_of_every_layer_comes_at_once() {
    let file = file("slotz = 1\nretention = '5 d'\n");
    let args = AgentArgs {
        config: Some(file.path().to_owned()),
        slots: Some("many".to_owned()),
        lease_ttl: Some("1s".to_owned()),
        label: vec!["role".to_owned()],
        ..AgentArgs::default()
    };
    let text = refused(&args, &env(&[("FARMHAND_LISTEN", "nowhere")]));
    assert!(text.contains("6 mistakes"), "{text}");
    for part in [
        "--slots \"many\"",
        "--lease-ttl \"1s\"",
        "--label \"role\"",
        "FARMHAND_LISTEN=\"nowhere\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_password_on_the_command_line_is_refused_and_never_repeated() {
    for url in [
        "postgresql://u:geheim@h/f",
        "host=h password=geheim",
        "postgresql://h/f?password=geheim",
    ] {
        let args = AgentArgs {
            database_url: Some(url.to_owned()),
            ..AgentArgs::default()
        };
        let text = refused(&args, &env(&[]));
        assert!(text.contains("PGPASSFILE") && !text.contains("geheim"), "{text}");
    }
    let env = env(&[("FARMHAND_DATABASE_URL", "postgresql://u:geheim@h/f")]);
    assert!(load(&AgentArgs::default(), &env).is_ok());
}

#[test]
fn lines_go_to_the_services_own_socket_unless_told_otherwise() {
    let with = |pairs: &[(&str, &str)]| load(&AgentArgs::default(), &env(pairs)).unwrap().run_log;
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[("FARMHAND_RUN_LOG", "none")]), None);
    let socket = |pairs| with(pairs).unwrap().socket.display().to_string();
    assert_eq!(
        socket(&[("FARMHAND_RUN_LOG", "journald")]),
        "/run/systemd/journal/socket"
    );
    assert_eq!(socket(&[("FARMHAND_RUN_LOG", "syslog")]), "/dev/log");
    assert_eq!(socket(&[("FARMHAND_RUN_LOG", "syslog:/s")]), "/s");
    for wrong in ["journal", "syslog:", "none:/s"] {
        let file = file(&format!("run_log = '{wrong}'\n"));
        let args = AgentArgs {
            config: Some(file.path().to_owned()),
            ..AgentArgs::default()
        };
        refused(&args, &env(&[]));
    }
}

#[test]
fn how_people_are_told_comes_from_tables_and_variables() {
    use farmhand_node::notify::{PingUrl, SmtpTls};
    let file = file(
        "secrets_dir = '/s'\n[smtp]\nhost = 'mail'\nport = 465\nfrom = 'a@b'\nuser = 'u'\npassword_file = '/p'\n\
         [ping]\nurl_file = '/u'\n",
    );
    let args = AgentArgs {
        config: Some(file.path().to_owned()),
        ..AgentArgs::default()
    };
    let outside = load(&args, &env(&[("FARMHAND_SMTP_HOST", "relay")]))
        .unwrap()
        .outside;
    let smtp = outside.smtp.unwrap();
    assert_eq!((smtp.host.as_str(), smtp.tls), ("relay", SmtpTls::Implicit));
    let ping = outside.ping.unwrap();
    assert_eq!(
        (ping.to, ping.every),
        (PingUrl::File("/u".into()), Duration::from_secs(60))
    );
    let none = load(&AgentArgs::default(), &env(&[])).unwrap().outside;
    assert_eq!((none.smtp, none.ping), (None, None));
}

#[test]
fn a_relay_or_a_switch_that_cannot_work_is_refused() {
    let refused = |pairs: &[(&str, &str)]| refused(&AgentArgs::default(), &env(pairs));
    let host = ("FARMHAND_SMTP_HOST", "mail.example.org");
    let from = ("FARMHAND_SMTP_FROM", "a@b");
    assert!(refused(&[host]).contains("it needs `host` and `from`"));
    assert!(refused(&[host, from, ("FARMHAND_SMTP_USER", "u")]).contains("need each other"));
    let secret = [("FARMHAND_SMTP_USER", "u"), ("FARMHAND_SMTP_PASSWORD_FILE", "/p")];
    let clear = ("FARMHAND_SMTP_TLS", "none");
    assert!(refused(&[host, from, secret[0], secret[1], clear]).contains("without TLS"));
    assert!(refused(&[("FARMHAND_SMTP_FROM", "x")]).contains("FARMHAND_SMTP_FROM"));
    assert!(refused(&[("FARMHAND_PING_EVERY", "1s"), ("FARMHAND_PING_URL", "hc")]).contains("https://"));
    let both = [
        ("FARMHAND_PING_URL", "https://h"),
        ("FARMHAND_PING_URL_FILE", "/u"),
    ];
    assert!(refused(&both).contains("either `url` or `url_file`"));
}

#[test]
fn the_example_of_an_agent_that_tells_people_is_taken() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/examples/notify/agent.toml"
    );
    let args = AgentArgs {
        config: Some(example.into()),
        ..AgentArgs::default()
    };
    let outside = load(&args, &env(&[])).unwrap().outside;
    assert!(outside.smtp.is_some() && outside.ping.is_some(), "{outside:?}");
}

#[test]
fn a_trusted_proxy_is_off_by_default_and_named_in_full() {
    assert_eq!(load(&AgentArgs::default(), &env(&[])).unwrap().proxy, None);
    let with = |text: &str| {
        let file = file(text);
        let args = AgentArgs {
            config: Some(file.path().to_owned()),
            ..AgentArgs::default()
        };
        load(&args, &env(&[]))
    };
    let needed = "[trusted_proxy]\naddresses = ['10.0.0.5/32']\ntoken_name = 'sso'\nuser_header = 'X-Forwarded-User'\n";
    let proxy = with(&format!(
        "{needed}[trusted_proxy.users]\n'ann@example.org' = 'operator'\n"
    ));
    let proxy = proxy.unwrap().proxy.unwrap();
    assert_eq!(proxy.user_header, "x-forwarded-user");
    assert_eq!(proxy.users["ann@example.org"], farmhand_store::Role::Operator);
    for line in needed.lines().skip(1) {
        assert!(with(&needed.replace(line, "")).is_err(), "without {line}");
    }
    for more in [
        "groups_header = 'X-Groups'",
        "[trusted_proxy.groups]\nfarm = 'admin'",
        "[trusted_proxy.users]\nann = 'root'",
        "user = 'ann'",
    ] {
        assert!(with(&format!("{needed}{more}\n")).is_err(), "{more}");
    }
    for (good, bad) in [
        ("10.0.0.5/32", "0.0.0.0/0"),
        ("'sso'", "'fh_AAAA'"),
        ("X-Forwarded-User", "Sec-Fetch-Site"),
        ("X-Forwarded-User", "X User"),
    ] {
        assert!(with(&needed.replace(good, bad)).is_err(), "{bad}");
    }
}

#[test]
fn only_an_absent_list_of_trusted_keys_turns_signatures_off() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("trusted-keys");
    let lies_at = |keys: &Path| default_keys(keys).as_deref() == Some(keys);
    assert!(!lies_at(&keys));
    symlink("/nowhere/keys", &keys).unwrap();
    assert!(lies_at(&keys), "a dangling link");
    let not_a_directory = file("");
    assert!(
        lies_at(&not_a_directory.path().join("trusted-keys")),
        "it cannot be looked up"
    );
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o400)).unwrap();
    // Root may look everywhere.
    if !rustix::process::geteuid().is_root() {
        assert!(lies_at(&closed.join("trusted-keys")), "this user may not look");
    }
}

#[test]
fn the_log_is_at_info_unless_told_otherwise_and_the_scheduler_says_warnings_alone() {
    let filter = |text| log_filter(&env(&[("FARMHAND_LOG", text)])).map(|filter| filter.to_string());
    let info = log_filter(&env(&[])).unwrap().to_string();
    assert!(
        info.contains("tokio_cron_scheduler=warn") && info.contains("info"),
        "{info}"
    );
    for same in ["", " ", "info"] {
        assert_eq!(filter(same).as_ref(), Ok(&info), "{same:?}");
    }
    for good in [
        "DEBUG",
        "off",
        "info,farmhand_store=debug",
        "warn,[claim{run=1}]=trace",
    ] {
        assert!(filter(good).is_ok(), "{good}");
    }
    let own = filter("info,tokio_cron_scheduler=debug").unwrap();
    assert!(own.contains("tokio_cron_scheduler=debug"), "{own}");
    for bad in ["warning", "verbose", "info,farmhand", "a=b=c"] {
        let why = filter(bad).unwrap_err();
        assert!(why.contains(&format!("FARMHAND_LOG=\"{bad}\"")), "{why}");
    }
}

fn parser() -> clap::Command {
    <AgentArgs as clap::Args>::augment_args(clap::Command::new("agent"))
}

fn parsed(flags: &[(&str, &str)]) -> AgentArgs {
    let flags = flags
        .iter()
        .map(|(id, value)| format!("--{}={value}", id.replace('_', "-")));
    let matches = parser().get_matches_from(std::iter::once("agent".to_owned()).chain(flags));
    <AgentArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap()
}

#[test]
fn every_flag_is_a_variable_and_a_key_of_the_file_too() {
    let all = [
        ("database_url", "postgresql://h/f"),
        ("rows_database_url", "postgresql://r/f"),
        ("definitions_database_url", "postgresql://d/f"),
        ("node_name", "n"),
        ("address", "a"),
        ("slots", "3"),
        ("label", "k=v"),
        ("listen", "127.0.0.1:1"),
        ("api", "off"),
        ("metrics_token", "on"),
        ("tls_cert", "/c"),
        ("tls_key", "/k"),
        ("state_dir", "/s"),
        ("lease_ttl", "9s"),
        ("notify", "off"),
        ("stop_timeout", "1s"),
        ("retention", "2d"),
        ("run_log", "syslog:/l"),
        ("policy", "/p"),
        ("trusted_keys", "/t"),
        ("user", "u"),
        ("config", "/dev/null"),
    ];
    let parser = parser();
    let ids: Vec<&str> = parser.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    assert_eq!(ids, all.map(|(id, _)| id));
    let home = ("HOME".to_owned(), "/home/x".to_owned());
    let variable = |(id, value): (&str, &str)| (format!("FARMHAND_{}", id.to_uppercase()), value.to_owned());
    let keys = all.map(|(id, value)| match id {
        "label" => "labels = { k = 'v' }\n".to_owned(),
        "config" => String::new(),
        _ => format!("{id} = '{value}'\n"),
    });
    let file = file(&keys.concat());
    let in_file = AgentArgs {
        config: Some(file.path().to_owned()),
        ..AgentArgs::default()
    };
    let none = BTreeMap::from([home.clone()]);
    let env: BTreeMap<String, String> = all.map(variable).into_iter().chain([home]).collect();
    let by = [
        (parsed(&all), &none),
        (AgentArgs::default(), &env),
        (in_file, &none),
    ];
    let [flags, variables, file] = by.map(|(args, env)| format!("{:?}", load(&args, env).unwrap()));
    assert_eq!(flags, variables);
    assert_eq!(flags, file);
}

#[test]
fn another_login_needs_a_restart_whatever_it_is_for() {
    let of = |flags: &[(&str, &str)]| load(&parsed(flags), &env(&[])).unwrap();
    for key in ["database_url", "rows_database_url", "definitions_database_url"] {
        assert_eq!(of(&[]).restart_needed(&of(&[(key, "postgresql://x/f")])), [key]);
    }
}

#[test]
fn the_help_says_the_defaults() {
    let unset = format!("{:?}", load(&AgentArgs::default(), &env(&[])).unwrap());
    let mut said = Vec::new();
    for arg in parser().get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let value = help
            .split_once("[default: ")
            .and_then(|(_, rest)| rest.split([',', ']']).next());
        let id = arg.get_id().as_str();
        // Of a setting whose default is the machine's, the help says where it comes from.
        if let Some(value) = value.filter(|value| !value.contains(' ') && id != "state_dir") {
            let set = load(&parsed(&[(id, value)]), &env(&[])).unwrap();
            assert_eq!(format!("{set:?}"), unset, "{id}");
            said.push(id.to_owned());
        }
    }
    assert_eq!(said.len(), 10, "{said:?}");
}
