//! What config.toml says, and which file said it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pod_core::{HomeLayout, KEYS, PoddLimits, Policy, PolicyError, PolicyOverrides, nearest_key};
use toml::{Table, Value};

use crate::source::{read, read_named, syntax};
use crate::{ConfigError, home};

const TABLES: &[&str] = &["podd", "policy"];

/// Who says what holds; a later one beats an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody: it is the default.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// The pod itself.
    Pod,
}

/// What the configuration files say together.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The limits of podd.
    pub podd: PoddLimits,
    /// The files that were there, the strongest first.
    layers: Vec<Layer>,
}

#[derive(Debug, Clone)]
struct Layer {
    file: PathBuf,
    policy: PolicyOverrides,
    podd: Vec<(String, String)>,
}

impl Config {
    /// Reads the user's file and the home's, which beats it; or `explicit` alone, if it is given.
    ///
    /// A file that is missing says nothing, but for an explicit one, which has to exist.
    pub fn load(
        home: &HomeLayout,
        explicit: Option<&Path>,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Vec::new();
        if let Some(file) = explicit {
            layers.push(Layer::parse(file, &read_named(file)?)?);
        } else {
            for file in [Some(home.config()), home::user_config(env)]
                .into_iter()
                .flatten()
            {
                if let Some(text) = read(&file)? {
                    layers.push(Layer::parse(&file, &text)?);
                }
            }
        }
        let mut podd = PoddLimits::default();
        for layer in layers.iter().rev() {
            for (key, text) in &layer.podd {
                podd.set(key, text)
                    .map_err(|source| layer_error(&layer.file, "podd", key, source))?;
            }
        }
        Ok(Self { podd, layers })
    }

    /// The policy of a pod that says `pod` itself.
    pub fn policy_for(&self, pod: &PolicyOverrides) -> Policy {
        let mut layers = vec![pod];
        layers.extend(self.layers.iter().map(|layer| &layer.policy));
        Policy::of_layers(&layers)
    }

    /// Who says what a policy key is for a pod that says `pod` itself.
    pub fn origin(&self, key: &str, pod: &PolicyOverrides) -> Origin {
        if pod.says(key) {
            return Origin::Pod;
        }
        self.first(|layer| layer.policy.says(key))
    }

    /// Who says what a key of podd is.
    pub fn podd_origin(&self, key: &str) -> Origin {
        self.first(|layer| layer.podd.iter().any(|(known, _)| known == key))
    }

    /// The files that were read, the strongest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().map(|layer| layer.file.as_path())
    }

    fn first(&self, says: impl Fn(&Layer) -> bool) -> Origin {
        let layer = self.layers.iter().find(|layer| says(layer));
        layer.map_or(Origin::Default, |layer| Origin::File(layer.file.clone()))
    }
}

impl Layer {
    fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let tables: Table =
            toml::from_str(text).map_err(|error| syntax(file, text, error.span(), error.message()))?;
        let mut layer = Self {
            file: file.to_owned(),
            policy: PolicyOverrides::default(),
            podd: Vec::new(),
        };
        for (name, content) in &tables {
            let Some(table) = TABLES.iter().copied().find(|known| *known == name) else {
                return Err(unknown_table(file, name));
            };
            let Value::Table(content) = content else {
                return Err(shape(file, name, "a table"));
            };
            for (key, value) in content {
                layer.set(table, key, value)?;
            }
        }
        Ok(layer)
    }

    fn set(&mut self, table: &'static str, key: &str, value: &Value) -> Result<(), ConfigError> {
        let Some(text) = as_text(value) else {
            return Err(shape(&self.file, &format!("{table}.{key}"), "a text or a number"));
        };
        let done = if table == "podd" {
            // Into limits of its own: which layer wins is settled when all are read.
            let done = PoddLimits::default().set(key, &text);
            self.podd.push((key.to_owned(), text));
            done
        } else {
            self.policy.set(key, &text)
        };
        done.map_err(|source| layer_error(&self.file, table, key, source))
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn layer_error(file: &Path, table: &'static str, key: &str, source: PolicyError) -> ConfigError {
    ConfigError::Setting {
        file: file.to_owned(),
        table,
        elsewhere: home_of(key).filter(|of| *of != table),
        source,
    }
}

/// The table that has a key of this name.
fn home_of(key: &str) -> Option<&'static str> {
    if PoddLimits::KEYS.contains(&key) {
        return Some("podd");
    }
    KEYS.iter().any(|known| known.name == key).then_some("policy")
}

fn unknown_table(file: &Path, name: &str) -> ConfigError {
    let nearest = nearest_key(name, TABLES).or_else(|| home_of(name));
    ConfigError::UnknownTable {
        file: file.to_owned(),
        key: pod_core::quoted(name, 60),
        nearest,
    }
}

fn shape(file: &Path, key: &str, expected: &'static str) -> ConfigError {
    ConfigError::Shape {
        file: file.to_owned(),
        key: pod_core::quoted(key, 80),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pod_core::{ByteSize, Span};

    use super::*;

    struct Place {
        directory: tempfile::TempDir,
        home: HomeLayout,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let home = HomeLayout::new(directory.path().join("home"));
            fs::create_dir(home.root()).unwrap();
            fs::create_dir_all(directory.path().join("xdg/agents-pod")).unwrap();
            Self { directory, home }
        }

        fn user_file(&self) -> PathBuf {
            self.directory.path().join("xdg/agents-pod/config.toml")
        }

        fn load(&self, explicit: Option<&Path>) -> Result<Config, ConfigError> {
            let xdg = self.directory.path().join("xdg").into_os_string();
            Config::load(&self.home, explicit, &|name| {
                (name == "XDG_CONFIG_HOME").then(|| xdg.clone())
            })
        }

        fn refused(&self, text: &str) -> ConfigError {
            fs::write(self.home.config(), text).unwrap();
            self.load(None).unwrap_err()
        }
    }

    #[test]
    fn missing_files_mean_the_defaults() {
        let config = Place::new().load(None).unwrap();
        let none = PolicyOverrides::default();
        assert_eq!(config.podd, PoddLimits::default());
        assert_eq!(config.policy_for(&none), Policy::of_layers(&[]));
        assert_eq!(config.origin("cancelGrace", &none), Origin::Default);
        assert_eq!(config.podd_origin("startRate"), Origin::Default);
    }

    #[test]
    fn the_pod_beats_the_home_which_beats_the_user() {
        let place = Place::new();
        let user =
            "[podd]\nmaxConcurrent = 2\nstartRate = 3\n[policy]\ncancelGrace = '1s'\nmaxFailures = 7\n";
        fs::write(place.user_file(), user).unwrap();
        let own =
            "policy = { cancelGrace = '2s', sweepGrace = '3s', backoffFactor = 1.5 }\npodd.startRate = 9\n";
        fs::write(place.home.config(), own).unwrap();
        let config = place.load(None).unwrap();
        let mut pod = PolicyOverrides::default();
        pod.set("sweepGrace", "4s").unwrap();
        let policy = config.policy_for(&pod);
        assert_eq!(
            (policy.cancel_grace, policy.sweep_grace),
            (Span::secs(2), Span::secs(4))
        );
        assert_eq!((policy.max_failures, policy.backoff_factor), (7, 1.5));
        assert_eq!((config.podd.max_concurrent, config.podd.start_rate), (2, 9));
        let (home, user) = (Origin::File(place.home.config()), Origin::File(place.user_file()));
        assert_eq!(config.origin("sweepGrace", &pod), Origin::Pod);
        assert_eq!(config.origin("cancelGrace", &pod), home);
        assert_eq!(config.origin("maxFailures", &pod), user);
        assert_eq!(config.podd_origin("startRate"), home);
        assert_eq!(config.podd_origin("maxConcurrent"), user);
        assert!(home > Origin::Default && Origin::Pod > home);
    }

    #[test]
    fn an_explicit_file_replaces_both_and_must_exist() {
        let place = Place::new();
        fs::write(place.home.config(), "[podd]\nmaxConcurrent = 2\n").unwrap();
        let explicit = place.directory.path().join("other.toml");
        assert!(matches!(place.load(Some(&explicit)), Err(ConfigError::Disk(error)) if error.is_missing()));
        fs::write(&explicit, "[podd]\nminFreeDisk = '2GiB'\n").unwrap();
        let config = place.load(Some(&explicit)).unwrap();
        assert_eq!(
            (config.podd.max_concurrent, config.podd.min_free_disk),
            (8, ByteSize::mib(2048))
        );
        assert_eq!(config.files().collect::<Vec<_>>(), [explicit.as_path()]);
        assert!(place.load(Some(Path::new("/dev/null"))).is_ok());
    }

    #[test]
    fn what_is_unknown_is_an_error_that_names_file_and_key_and_helps() {
        let place = Place::new();
        let error = place.refused("[policy]\nmax-wakeups = 3\n");
        assert_eq!(
            error.to_string(),
            format!("cannot use table `policy` of `{}`", place.home.config().display())
        );
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "there is no setting `max-wakeups`");
        assert_eq!(error.hint(), "did you mean `maxWakeUps`?");
        assert_eq!(
            place.refused("[podd]\ncancelGrace = '1s'").hint(),
            "it belongs under `[policy]`"
        );
        assert_eq!(place.refused("[polcy]\n").hint(), "did you mean `policy`?");
        assert_eq!(
            place.refused("maxConcurrent = 3\n").hint(),
            "did you mean `podd`?"
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error() {
        let place = Place::new();
        let error = place.refused("[podd]\nmaxConcurrent = 0\n");
        assert!(
            matches!(error, ConfigError::Setting { table: "podd", .. }),
            "{error}"
        );
        let error = place.refused("[policy]\ncancelGrace = true\n");
        assert!(
            error.to_string().starts_with("`policy.cancelGrace` in `"),
            "{error}"
        );
        let error = place.refused("policy = 3\n");
        assert!(error.to_string().ends_with("must be a table"), "{error}");
        let error = place.refused("[podd]\n\nmaxConcurrent = = 3\n");
        assert!(matches!(error, ConfigError::Syntax { line: 3, .. }), "{error}");
    }
}
