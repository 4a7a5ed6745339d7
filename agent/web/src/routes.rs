//! The table of routes: which method and path, who may ask, and what the OpenAPI document says of it.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware;
use axum::routing::MethodRouter;
use farmhand_control::actions::Act;
use farmhand_control::ask::Question;
use farmhand_core::document::Located;
use farmhand_core::release;
use farmhand_store::Role;
use farmhand_store::event::EventKind;
use utoipa::openapi::path::{HttpMethod, Operation, PathItem, Paths};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::auth::middleware::{BODY, Guard, guard};
use super::{App, Problem};
use crate::access::Access;
use crate::api::acting;
use crate::question;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    /// With parameters in braces.
    pub path: String,
    pub access: Access,
}

/// Routes, each stated once: the table, the router and the OpenAPI document come from the same line.
#[derive(Default)]
pub struct Routes {
    table: Vec<Route>,
    /// With the largest body.
    entries: Vec<(Access, usize, String, MethodRouter<App>)>,
    api: OpenApi,
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A route of the API for this role and those above it: `.api(Role::Viewer, routes!(list))`. The answers that any
    /// route can give (401, 403, …) are documented here, the others by the handler.
    #[must_use]
    pub fn api(self, role: Role, routes: UtoipaMethodRouter<App>) -> Self {
        self.documented(Access::Api(role), BODY, routes)
    }

    /// The route of a question, which says the rest itself.
    #[must_use]
    pub fn ask<Q: Question<Answer: Send> + 'static>(self, tag: &str) -> Self {
        let (operation, schemas) = question::described::<Q>(tag);
        let mut paths = Paths::new();
        paths.add_path_operation(Q::PATH, vec![HttpMethod::Get], operation);
        self.documented(
            Access::Api(Q::ROLE),
            BODY,
            (schemas, paths, question::handler::<Q>()),
        )
    }

    /// The route of an action, which says the rest itself.
    #[must_use]
    pub fn act<A: Act + 'static>(self, tag: &str) -> Self {
        let (operation, schemas) = acting::described::<A>(tag);
        let mut paths = Paths::new();
        paths.add_path_operation(A::PATH, vec![A::METHOD], operation);
        self.documented(
            Access::Api(A::ROLE),
            BODY,
            (schemas, paths, acting::handler::<A>()),
        )
    }

    /// The same, whose body may be larger than others' are.
    #[must_use]
    pub fn large_api(self, role: Role, most: usize, routes: UtoipaMethodRouter<App>) -> Self {
        self.documented(Access::Api(role), most, routes)
    }

    /// A documented route that asks nobody who they are.
    #[must_use]
    pub fn open_api(self, routes: UtoipaMethodRouter<App>) -> Self {
        self.documented(Access::Open, BODY, routes)
    }

    fn documented(
        mut self,
        access: Access,
        most: usize,
        (schemas, paths, router): UtoipaMethodRouter<App>,
    ) -> Self {
        for (path, mut item) in paths.paths {
            for (method, operation) in operations(&mut item) {
                complete(operation, access, &method, &path);
                self.table.push(Route {
                    method,
                    path: path.clone(),
                    access,
                });
            }
            self.entries.push((access, most, path.clone(), router.clone()));
            match self.api.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => drop(self.api.paths.paths.insert(path, item)),
            }
        }
        let components = self.api.components.get_or_insert_default();
        components.schemas.extend(schemas);
        self
    }

    /// A route of the page. `handler` answers this one method.
    #[must_use]
    pub fn page(mut self, access: Access, method: Method, path: &str, handler: MethodRouter<App>) -> Self {
        self.table.push(Route {
            method,
            path: path.to_owned(),
            access,
        });
        self.entries.push((access, BODY, path.to_owned(), handler));
        self
    }

    /// The routes of both.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.table.extend(other.table);
        self.entries.extend(other.entries);
        self.api.merge(other.api);
        self
    }

    /// Every route with who may ask.
    pub fn table(&self) -> &[Route] {
        &self.table
    }

    /// The OpenAPI document of the API's routes.
    pub fn openapi(&self) -> OpenApi {
        let mut api = OpenApiBuilder::new()
            .info(
                InfoBuilder::new()
                    .title("Farmhand")
                    .version(release::version())
                    .description(Some(
                        "Every agent serves all of this. Send a token as `Authorization: Bearer fh_…`; `farmhand token \
                         create` makes one.",
                    ))
                    .build(),
            )
            .components(Some(
                ComponentsBuilder::new()
                    .schema(Problem::name(), Problem::schema())
                    // Only a problem names it.
                    .schema(Located::name(), Located::schema())
                    // Only a parameter names it.
                    .schema(EventKind::name(), EventKind::schema())
                    .security_scheme(
                        "token",
                        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
                    )
                    .build(),
            ))
            .build();
        api.merge(self.api.clone());
        api
    }

    /// The handlers alone, as if their guards had let everything through. No listener serves this.
    pub(super) fn unguarded(self, app: &App) -> Router {
        let mut router = Router::new();
        for (_, _, path, handler) in self.entries {
            router = router.route(&path, handler);
        }
        router.with_state(app.clone())
    }

    /// The router, with the guard of each route before its handler.
    pub fn build(self, app: &App) -> Router {
        let mut router = Router::new();
        for (access, most, path, handler) in self.entries {
            let guarding = Guard {
                app: app.clone(),
                access,
                most,
                even_away: false,
            };
            let handler = handler.route_layer(middleware::from_fn_with_state(guarding, guard));
            router = router.route(&path, handler);
        }
        // The guards have read the bodies, each within its bound.
        router.layer(DefaultBodyLimit::disable()).with_state(app.clone())
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, item.get.as_mut()),
        (Method::PUT, item.put.as_mut()),
        (Method::POST, item.post.as_mut()),
        (Method::DELETE, item.delete.as_mut()),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation?)))
}

/// Adds what the guard may answer, and whom it lets through.
fn complete(operation: &mut Operation, access: Access, method: &Method, path: &str) {
    // Handlers of different nouns have the same names.
    let words = path.trim_start_matches("/api/v1/").replace(['/', '.'], "_");
    let words = words.replace(['{', '}'], "");
    operation.operation_id = Some(format!("{}_{words}", method.as_str().to_ascii_lowercase()));
    let mut answers = vec![
        (400, "The request cannot be understood"),
        (404, "There is no such thing"),
        (500, "A defect"),
        (503, "The database is out of reach, or the answer took too long"),
    ];
    if let Access::Api(role) = access {
        answers.extend([
            (401, "No token, or none that is good"),
            (
                403,
                "The token's role is not enough, or the request came from another site",
            ),
            (429, "Too many requests"),
        ]);
        operation.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
        let may = format!("Needs the role {role}.");
        operation.description = Some(match operation.description.take() {
            Some(text) => format!("{text}\n\n{may}"),
            None => may,
        });
    }
    // What a route gives is what it is for.
    let summary = operation.summary.clone().unwrap_or_default();
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            response.description.clone_from(&summary);
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.required.get_or_insert(Required::True);
    }
    if *method != Method::GET {
        answers.push((409, "Conflicts with the current state"));
        answers.extend([
            (408, "The body came too slowly"),
            (413, "The body is too large"),
            (415, "The body is not JSON"),
        ]);
    }
    for (status, text) in answers {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new()
            .description(text)
            .content("application/problem+json", content)
            .build();
        let responses = &mut operation.responses.responses;
        responses
            .entry(status.to_string())
            .or_insert_with(|| response.into());
    }
}
