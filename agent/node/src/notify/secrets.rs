//! Secrets of this machine: files in one directory, named by targets, read anew for each message.

use std::io::Read;
use std::path::Path;

use farmhand_core::notify::{TargetSpec, Url};
use hyper::header::{HeaderName, HeaderValue};

use farmhand_os::open_beneath;
use farmhand_warden_client::helper::{self, Purpose};

/// More is no URL, header or password.
const MOST: u64 = 16 * 1024;

/// A small text file that the agent's own configuration names.
pub(super) fn read(file: &Path, of: Purpose) -> Result<String, String> {
    let bad = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_file() && meta.len() <= MOST => {}
        Ok(_) => return Err(bad(&"not a small file")),
        // A helper may be able to.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {}
        Err(e) => return Err(bad(&e)),
    }
    helper::text_of(file, of).map_err(|e| bad(&e))
}

/// A small text file that a target names. The database says so: it is an entry of the directory, read with the agent's own
/// rights, and nothing else.
fn entry(dir: &Path, name: &str) -> Result<String, String> {
    let bad = |e: &dyn std::fmt::Display| format!("{}: {e}", dir.join(name).display());
    let file = open_beneath::open(dir, name).map_err(|e| bad(&e))?;
    match file.metadata() {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(bad(&"not a small file")),
        Err(e) => return Err(bad(&e)),
    }
    let mut text = String::new();
    file.take(MOST + 1)
        .read_to_string(&mut text)
        .map_err(|e| bad(&e))?;
    match text.len() as u64 {
        ..=MOST => Ok(text),
        _ => Err(bad(&"not a small file")),
    }
}

/// The URL and the further headers of a target's webhook.
pub(crate) fn webhook(
    dir: &Path,
    spec: &TargetSpec,
) -> Result<(Url, Vec<(HeaderName, HeaderValue)>), String> {
    let url = match (&spec.webhook, &spec.webhook_file) {
        (Some(url), _) => Url::parse(url).map_err(|why| format!("its URL: {why}"))?,
        (None, Some(name)) => {
            let text = entry(dir, name)?;
            Url::parse(text.trim()).map_err(|why| format!("{}: {why}", dir.join(name).display()))?
        }
        (None, None) => return Err("it has no webhook any more".to_owned()),
    };
    let Some(file) = &spec.headers_file else {
        return Ok((url, Vec::new()));
    };
    let text = entry(dir, file)?;
    let headers = (text.lines().enumerate())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            let wrong = || {
                format!(
                    "{}: line {} is not `Name: value`",
                    dir.join(file).display(),
                    at + 1
                )
            };
            let (name, value) = line.split_once(':').ok_or_else(wrong)?;
            let name = name.trim().parse::<HeaderName>().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((name, value))
        })
        .collect::<Result<Vec<_>, String>>()?;
    Ok((url, headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_headers_come_from_files_and_no_error_repeats_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let spec = TargetSpec {
            webhook_file: Some("url".to_owned()),
            headers_file: Some("headers".to_owned()),
            ..TargetSpec::default()
        };
        let missing = webhook(dir.path(), &spec).unwrap_err();
        assert!(missing.contains("/url: No such file"), "{missing}");
        write("url", "https://h/geheim\n");
        write("headers", "Authorization: Bearer geheim\n\nX-One: 1\n");
        let (url, headers) = webhook(dir.path(), &spec).unwrap();
        assert_eq!(
            (url.path.as_str(), headers.len(), headers[0].0.as_str()),
            ("/geheim", 2, "authorization")
        );
        write("headers", "geheim\n");
        write("url", "https://h/\n");
        let wrong = webhook(dir.path(), &spec).unwrap_err();
        assert!(wrong.contains("line 1") && !wrong.contains("geheim"), "{wrong}");
        write("url", "geheim");
        let wrong = webhook(dir.path(), &spec).unwrap_err();
        assert!(wrong.contains("https://") && !wrong.contains("geheim"), "{wrong}");
    }
}
