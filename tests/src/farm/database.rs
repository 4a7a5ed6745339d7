//! Where a farm's database lives.

use crate::pg::Client;

use crate::pg::{PrivateServer, TestDb};

/// A database of the shared server, or a server that may be broken.
pub enum Database {
    Shared(TestDb),
    Private(Box<PrivateServer>),
}

impl Database {
    /// Over the unix socket, past every proxy, as the role of agents.
    pub fn agent_url(&self) -> String {
        match self {
            Self::Shared(db) => db.agent_url(),
            Self::Private(server) => server.agent_url(),
        }
    }

    /// Likewise as the role of people who run the farm.
    pub fn operator_url(&self) -> String {
        match self {
            Self::Shared(db) => db.operator_url(),
            Self::Private(server) => server.operator_url(),
        }
    }

    /// Over the unix socket, past every proxy, as the owner.
    pub fn url(&self) -> String {
        match self {
            Self::Shared(db) => db.url(),
            Self::Private(server) => server.url(),
        }
    }

    /// The same database through a TCP port of the loopback, for agents.
    pub fn url_through(&self, port: u16) -> String {
        let url = match self {
            Self::Shared(db) => db.agent_tcp_url(),
            Self::Private(server) => server.agent_tcp_url(),
        };
        url.replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Shared(db) => db.port(),
            Self::Private(server) => server.port(),
        }
    }

    pub async fn admin(&self) -> Client {
        match self {
            Self::Shared(db) => db.admin().await,
            Self::Private(server) => server.admin().await,
        }
    }

    pub async fn client(&self) -> Client {
        match self {
            Self::Shared(db) => db.client().await,
            Self::Private(server) => server.client().await,
        }
    }

    /// The server of this farm alone.
    ///
    /// # Panics
    /// When it is the shared one.
    pub fn server(&mut self) -> &mut PrivateServer {
        match self {
            Self::Private(server) => server,
            Self::Shared(_) => panic!("this farm lives on the shared server"),
        }
    }
}

impl From<PrivateServer> for Database {
    fn from(server: PrivateServer) -> Self {
        Self::Private(Box::new(server))
    }
}
