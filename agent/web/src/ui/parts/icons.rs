//! Shapes that stand beside every colour, drawn once per page and used by reference.

use maud::{Markup, PreEscaped, html};

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    Check,
    Cross,
    Clock,
    Stop,
    Lost,
    Skip,
    Play,
    Wait,
    Alert,
    Pause,
    Power,
    Fence,
    Arrow,
    Again,
}

const ALL: [(Icon, &str, &str); 14] = [
    (Icon::Check, "check", r#"<path d="M3 8.5l3.5 3.5L13 4.5"/>"#),
    (Icon::Cross, "cross", r#"<path d="M4 4l8 8M12 4l-8 8"/>"#),
    (
        Icon::Clock,
        "clock",
        r#"<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 2"/>"#,
    ),
    (
        Icon::Stop,
        "stop",
        r#"<circle cx="8" cy="8" r="6"/><path d="M4 12L12 4"/>"#,
    ),
    (
        Icon::Lost,
        "lost",
        r#"<path d="M8 1.5l6.5 6.5L8 14.5 1.5 8z" stroke-dasharray="3 2.5"/>"#,
    ),
    (Icon::Skip, "skip", r#"<path d="M2 11c1-6 9-6 11-1M13 5v5H8"/>"#),
    (Icon::Play, "play", r#"<path d="M4.5 3l8 5-8 5z"/>"#),
    (
        Icon::Wait,
        "wait",
        r#"<path d="M4 2h8M4 14h8M5 2c0 4 6 4 6 6s-6 2-6 6M11 2c0 4-6 4-6 6s6 2 6 6"/>"#,
    ),
    (
        Icon::Alert,
        "alert",
        r#"<path d="M8 2l6.5 11.5h-13zM8 6.5v3.5M8 12v.01"/>"#,
    ),
    (Icon::Pause, "pause", r#"<path d="M5.5 3v10M10.5 3v10"/>"#),
    (
        Icon::Power,
        "power",
        r#"<path d="M8 2v6M4.5 4a5.5 5.5 0 1 0 7 0"/>"#,
    ),
    (
        Icon::Fence,
        "fence",
        r#"<path d="M3 14V4l1.5-2L6 4v10M10 14V4l1.5-2L13 4v10M1 7h14M1 11h14"/>"#,
    ),
    (Icon::Arrow, "arrow", r#"<path d="M2 8h11M9 4l4 4-4 4"/>"#),
    (
        Icon::Again,
        "again",
        r#"<path d="M13 8a5 5 0 1 1-1.5-3.600M13 2v3h-3"/>"#,
    ),
];

impl Icon {
    fn name(self) -> &'static str {
        ALL.iter()
            .find(|(icon, ..)| *icon == self)
            .map_or("alert", |(_, name, _)| name)
    }

    /// Beside a word, which says what it means.
    pub fn markup(self) -> Markup {
        html! { svg class="i" viewBox="0 0 16 16" aria-hidden="true" { use href=(format!("#i-{}", self.name())) {} } }
    }

    /// The address of its drawing, 16 by 16, for use inside a picture.
    pub fn href(self) -> String {
        format!("#i-{}", self.name())
    }
}

/// The drawings, to be put once into a page.
pub fn sprite() -> Markup {
    html! {
        svg class="sr" width="0" height="0" aria-hidden="true" focusable="false" {
            @for (_, name, drawing) in ALL {
                symbol id=(format!("i-{name}")) viewBox="0 0 16 16" { (PreEscaped(drawing)) }
            }
        }
    }
}
