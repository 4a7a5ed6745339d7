//! Databases as services set them up for those who rent one: nobody there is a superuser. From the services' documentation;
//! no test has seen one of them.

use super::{TestDb, config, connect};
use farmhand_store::DbConfig;

/// Each with what makes its roles. `:admin` is the login that a customer gets.
pub const SERVICES: &[(&str, &str)] = &[
    ("rds", include_str!("services/rds.sql")),
    ("cloudsql", include_str!("services/cloudsql.sql")),
    ("azure", include_str!("services/azure.sql")),
    ("neon", include_str!("services/neon.sql")),
    ("supabase", include_str!("services/supabase.sql")),
    ("denied", include_str!("services/denied.sql")),
];

/// Amazon Aurora is RDS, with functions that fail while `rds.logical_replication` is off.
pub const AURORA: &str = include_str!("services/aurora.sql");

/// The service whose databases this run of the tests is to use: see CONTRIBUTING.md.
pub(super) fn chosen() -> Option<String> {
    std::env::var("FARMHAND_TEST_SERVICE")
        .ok()
        .filter(|name| !name.is_empty())
}

/// What makes the roles of this service, and denies its functions in the database where it runs.
pub(super) fn set_up(name: &str, admin: &str) -> String {
    let of = |name| SERVICES.iter().find(|(service, _)| *service == name);
    let sql = match (name, of(name)) {
        ("aurora", _) => of("rds").map(|(_, sql)| format!("{sql};{AURORA}")),
        (_, found) => found.map(|(_, sql)| (*sql).to_owned()),
    };
    sql.unwrap_or_else(|| panic!("FARMHAND_TEST_SERVICE: no service is called {name}"))
        .replace(":admin", admin)
}

/// A database without the schema that belongs to a service's customer.
pub struct Rented {
    pub test: TestDb,
    pub admin: String,
}

impl Rented {
    /// The database of the service `name`, set up by `sql`.
    pub async fn new(name: &str, sql: &str) -> Self {
        let test = TestDb::empty().await;
        let admin = format!("{name}_{}", std::process::id());
        let own = format!("; ALTER DATABASE {} OWNER TO {admin}", test.name());
        let made = sql.replace(":admin", &admin) + &own;
        test.admin().await.batch_execute(&made).await.expect(name);
        Self { test, admin }
    }

    pub fn url(&self) -> String {
        self.test.url_as(&self.admin)
    }

    pub fn config(&self) -> DbConfig {
        config(&self.url())
    }

    /// Has the customer make a login that is a member of this role, and returns its name.
    pub async fn login(&self, name: &str, role: &str) -> String {
        let login = format!("{}_login_{name}", self.admin);
        let made = format!("CREATE ROLE {login} LOGIN; GRANT {role} TO {login}");
        let customer = connect(&self.url()).await;
        customer.exec(&made).await;
        login
    }
}
