//! The flags of the audit log, checked in kube-apiserver's words.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use audit::{Batching, Format, LogConfig, Mode, Rotation, Truncation, WebhookConfig};
use clap::Args;
use go::duration;

const MIB: u64 = 1 << 20;

/// The audit log: what is told, and where.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The file of the policy.
    pub policy_file: PathBuf,
    /// The log.
    pub log: Option<LogConfig>,
    /// The webhook, and the kubeconfig file that says where it is.
    pub webhook: Option<(PathBuf, WebhookConfig)>,
}

/// Flags of the audit log; kube-apiserver has all of them.
#[derive(Args, Debug)]
#[command(next_help_heading = "Audit")]
pub(super) struct AuditArgs {
    /// File with the audit policy (audit.k8s.io/v1, YAML or JSON): which requests are logged, and how much of them; read once at the start
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    /// File to which audit events are written, created if it does not exist; - = standard output; needs --audit-policy-file
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<String>,
    /// Format of audit events: json = one JSON object a line, legacy = one line of text
    #[arg(long, default_value = "json", value_name = "FORMAT")]
    audit_log_format: String,
    /// API version of audit events
    #[arg(long, default_value = "audit.k8s.io/v1", value_name = "VERSION")]
    audit_log_version: String,
    /// Days that old files are kept, counted from the time in their names; 0 = forever
    #[arg(long, default_value_t = 366, allow_negative_numbers = true, value_name = "DAYS")]
    audit_log_maxage: i64,
    /// Old files that are kept; 0 = all
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_name = "COUNT")]
    audit_log_maxbackup: i64,
    /// Size at which the file is renamed and a new one begun, in MiB; 0 = never
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_name = "MEBIBYTES")]
    audit_log_maxsize: i64,
    /// Whether old files are compressed with gzip
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    audit_log_compress: bool,
    /// Whether requests wait until their events are written: batch = no, and events that find the buffer full are lost; blocking = yes; blocking-strict =
    /// yes, and a request is refused with 500 if its first event cannot be written
    #[arg(long, default_value = "blocking", value_name = "MODE")]
    audit_log_mode: String,
    /// Events that may wait to be written; only in the mode batch
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_name = "COUNT")]
    audit_log_batch_buffer_size: i64,
    /// Events that are written together; only in the mode batch
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_name = "COUNT")]
    audit_log_batch_max_size: i64,
    /// Longest time until events are written that are fewer than --audit-log-batch-max-size (Go duration); only in the mode batch
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    audit_log_batch_max_wait: Duration,
    /// Whether the number of batches a second is limited; only in the mode batch
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    audit_log_batch_throttle_enable: bool,
    /// Most batches a second on average; only in the mode batch
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "NUMBER")]
    audit_log_batch_throttle_qps: f32,
    /// Most batches at once, when there were fewer before than --audit-log-batch-throttle-qps allows; only in the mode batch
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "COUNT")]
    audit_log_batch_throttle_burst: i64,
    /// Whether large events are truncated: first their objects are left out, and if the rest is still too large, the event is lost
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    audit_log_truncate_enabled: bool,
    /// Size above which an event is truncated, in bytes
    #[arg(long, default_value_t = 100 << 10, allow_negative_numbers = true, value_name = "BYTES")]
    audit_log_truncate_max_event_size: i64,
    /// Most bytes of a batch; the log writes each event by itself, so it only has to be at least --audit-log-truncate-max-event-size
    #[arg(long, default_value_t = 10 << 20, allow_negative_numbers = true, value_name = "BYTES")]
    audit_log_truncate_max_batch_size: i64,
    /// kubeconfig file with the server to which audit events are posted; needs --audit-policy-file
    #[arg(long, value_name = "FILE")]
    audit_webhook_config_file: Option<PathBuf>,
    /// Time before a failed post is tried again (Go duration); each further time is half as long again, and after five tries the events are lost
    #[arg(long, alias = "audit-webhook-batch-initial-backoff", default_value = "10s", value_parser = duration::parse, value_name = "DURATION")]
    audit_webhook_initial_backoff: Duration,
    /// API version of audit events in posts
    #[arg(long, default_value = "audit.k8s.io/v1", value_name = "VERSION")]
    audit_webhook_version: String,
    /// Whether requests wait until their events are posted; see --audit-log-mode
    #[arg(long, default_value = "batch", value_name = "MODE")]
    audit_webhook_mode: String,
    /// Events that may wait to be posted; only in the mode batch
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_name = "COUNT")]
    audit_webhook_batch_buffer_size: i64,
    /// Most events of one post; only in the mode batch
    #[arg(long, default_value_t = 400, allow_negative_numbers = true, value_name = "COUNT")]
    audit_webhook_batch_max_size: i64,
    /// Longest time until events are posted that are fewer than --audit-webhook-batch-max-size (Go duration); only in the mode batch
    #[arg(long, default_value = "30s", value_parser = duration::parse, value_name = "DURATION")]
    audit_webhook_batch_max_wait: Duration,
    /// Whether the number of posts a second is limited; only in the mode batch
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    audit_webhook_batch_throttle_enable: bool,
    /// Most posts a second on average; only in the mode batch
    #[arg(long, default_value_t = 10.0, allow_negative_numbers = true, value_name = "NUMBER")]
    audit_webhook_batch_throttle_qps: f32,
    /// Most posts at once, when there were fewer before than --audit-webhook-batch-throttle-qps allows; only in the mode batch
    #[arg(long, default_value_t = 15, allow_negative_numbers = true, value_name = "COUNT")]
    audit_webhook_batch_throttle_burst: i64,
    /// Whether large events are truncated before they are posted; see --audit-log-truncate-enabled
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    audit_webhook_truncate_enabled: bool,
    /// Size above which an event is truncated, in bytes
    #[arg(long, default_value_t = 100 << 10, allow_negative_numbers = true, value_name = "BYTES")]
    audit_webhook_truncate_max_event_size: i64,
    /// Has to be at least --audit-webhook-truncate-max-event-size, and has no other effect, as in kube-apiserver
    #[arg(long, default_value_t = 10 << 20, allow_negative_numbers = true, value_name = "BYTES")]
    audit_webhook_truncate_max_batch_size: i64,
}

/// The flags that both backends have.
struct Backend<'a> {
    name: &'static str,
    version: &'a str,
    mode: &'a str,
    buffer: i64,
    size_max: i64,
    wait_max: Duration,
    throttle: Option<(f32, i64)>,
    truncates: bool,
    event_bytes_max: i64,
    batch_bytes_max: i64,
}

/// Nothing without a policy, or without a place for the events.
pub(super) fn audit(args: &AuditArgs, warnings: &mut Vec<String>) -> Result<Option<Audit>, String> {
    let log = args.audit_log_path.as_deref().filter(|path| !path.is_empty()).map(|path| log(args, path)).transpose()?;
    let webhook = args.audit_webhook_config_file.as_ref().map(|file| Ok::<_, String>((file.clone(), webhook(args)?))).transpose()?;
    match &args.audit_policy_file {
        Some(policy_file) if log.is_some() || webhook.is_some() => {
            return Ok(Some(Audit { policy_file: policy_file.clone(), log, webhook }));
        }
        Some(_) => {
            warnings.push("--audit-policy-file without --audit-log-path and --audit-webhook-config-file: nothing is audited".to_owned());
        }
        None => {
            let flags = [("--audit-log-path", log.is_some()), ("--audit-webhook-config-file", webhook.is_some())];
            let without = |flag: &str| format!("{flag} without --audit-policy-file: nothing is audited");
            warnings.extend(flags.into_iter().filter(|(_, is_there)| *is_there).map(|(flag, _)| without(flag)));
        }
    }
    Ok(None)
}

fn webhook(args: &AuditArgs) -> Result<WebhookConfig, String> {
    let throttle = (args.audit_webhook_batch_throttle_qps, args.audit_webhook_batch_throttle_burst);
    let (mode, truncation) = Backend {
        name: "webhook",
        version: &args.audit_webhook_version,
        mode: &args.audit_webhook_mode,
        buffer: args.audit_webhook_batch_buffer_size,
        size_max: args.audit_webhook_batch_max_size,
        wait_max: args.audit_webhook_batch_max_wait,
        throttle: args.audit_webhook_batch_throttle_enable.then_some(throttle),
        truncates: args.audit_webhook_truncate_enabled,
        event_bytes_max: args.audit_webhook_truncate_max_event_size,
        batch_bytes_max: args.audit_webhook_truncate_max_batch_size,
    }
    .checked()?;
    Ok(WebhookConfig { initial_backoff: args.audit_webhook_initial_backoff, mode, truncation })
}

fn log(args: &AuditArgs, path: &str) -> Result<LogConfig, String> {
    let throttle = (args.audit_log_batch_throttle_qps, args.audit_log_batch_throttle_burst);
    let (mode, truncation) = Backend {
        name: "log",
        version: &args.audit_log_version,
        mode: &args.audit_log_mode,
        buffer: args.audit_log_batch_buffer_size,
        size_max: args.audit_log_batch_max_size,
        wait_max: args.audit_log_batch_max_wait,
        throttle: args.audit_log_batch_throttle_enable.then_some(throttle),
        truncates: args.audit_log_truncate_enabled,
        event_bytes_max: args.audit_log_truncate_max_event_size,
        batch_bytes_max: args.audit_log_truncate_max_batch_size,
    }
    .checked()?;
    let format = match &*args.audit_log_format {
        "json" => Format::Json,
        "legacy" => Format::Legacy,
        other => return Err(format!(r#"invalid audit log format {other}, allowed formats are "legacy,json""#)),
    };
    let natural = |flag: &str, value: i64| {
        u32::try_from(value.min(i64::from(u32::MAX))).map_err(|_| format!("{flag} {value} can't be a negative number"))
    };
    let days_max = natural("--audit-log-maxage", args.audit_log_maxage)?;
    let backups_max = natural("--audit-log-maxbackup", args.audit_log_maxbackup)? as usize;
    let megabytes = natural("--audit-log-maxsize", args.audit_log_maxsize)?;
    let rotation = Rotation { bytes_max: u64::from(megabytes) * MIB, backups_max, days_max, compress: args.audit_log_compress };
    let path = (path != "-").then(|| path.into());
    Ok(LogConfig { path, format, rotation: (megabytes > 0).then_some(rotation), mode, truncation })
}

impl Backend<'_> {
    fn checked(&self) -> Result<(Mode, Option<Truncation>), String> {
        let mode = self.mode()?;
        let (name, event_max, batch_max) = (self.name, self.event_bytes_max, self.batch_bytes_max);
        let event_bytes_max = positive(event_max)
            .ok_or_else(|| format!("invalid audit truncate {name} max event size {event_max}, must be a positive number"))?;
        if batch_max < event_max {
            return Err(format!(
                "invalid audit truncate {name} max batch size {batch_max}, must be greater than max event size ({event_max})"
            ));
        }
        if self.version != "audit.k8s.io/v1" {
            return Err(r#"invalid group version, allowed versions are ["audit.k8s.io/v1"]"#.to_owned());
        }
        Ok((mode, self.truncates.then_some(Truncation { event_bytes_max })))
    }

    fn mode(&self) -> Result<Mode, String> {
        let name = self.name;
        match self.mode {
            "blocking" => Ok(Mode::Blocking),
            "blocking-strict" => Ok(Mode::BlockingStrict),
            "batch" => {
                let wrong =
                    |what: &str, value: &dyn Display| format!("invalid audit batch {name} {what} {value}, must be a positive number");
                let number = |what: &str, value: i64| positive(value).ok_or_else(|| wrong(what, &value));
                let (buffer, size_max) = (number("buffer size", self.buffer)?, number("max batch size", self.size_max)?);
                let throttle = self.throttle.map(|(per_second, burst)| {
                    if per_second.is_nan() || per_second <= 0.0 {
                        return Err(wrong("throttle QPS", &per_second));
                    }
                    Ok((per_second, u32::try_from(number("throttle burst", burst)?).unwrap_or(u32::MAX)))
                });
                Ok(Mode::Batch(Batching { buffer, size_max, wait_max: self.wait_max, throttle: throttle.transpose()? }))
            }
            other => Err(format!(r#"invalid audit {name} mode {other}, allowed modes are "batch,blocking,blocking-strict""#)),
        }
    }
}

fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|value| *value > 0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        audit: AuditArgs,
    }

    fn read(flags: &str) -> Result<Option<Audit>, String> {
        let line = ["x", "--audit-policy-file=p", "--audit-log-path=l"].into_iter().chain(flags.split_whitespace());
        audit(&Line::try_parse_from(line).map_err(|error| error.to_string())?.audit, &mut Vec::new())
    }

    /// The texts were recorded from kube-apiserver 1.36.3.
    #[test]
    fn wrong_flags_are_told_in_kube_apiservers_words() {
        for (flags, why) in [
            ("--audit-log-mode=x", r#"invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict""#),
            ("--audit-log-format=x", r#"invalid audit log format x, allowed formats are "legacy,json""#),
            ("--audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
            ("--audit-log-mode=batch --audit-log-batch-buffer-size=0", "invalid audit batch log buffer size 0, must be a positive number"),
            ("--audit-log-mode=batch --audit-log-batch-max-size=0", "invalid audit batch log max batch size 0, must be a positive number"),
            (
                "--audit-log-mode=batch --audit-log-batch-throttle-enable=true",
                "invalid audit batch log throttle QPS 0, must be a positive number",
            ),
            ("--audit-log-truncate-max-event-size=0", "invalid audit truncate log max event size 0, must be a positive number"),
            (
                "--audit-log-truncate-max-batch-size=1",
                "invalid audit truncate log max batch size 1, must be greater than max event size (102400)",
            ),
            (
                "--audit-webhook-config-file=w --audit-webhook-batch-throttle-burst=0",
                "invalid audit batch webhook throttle burst 0, must be a positive number",
            ),
            ("--audit-log-version=audit.k8s.io/v1beta1", r#"invalid group version, allowed versions are ["audit.k8s.io/v1"]"#),
        ] {
            assert_eq!(read(flags).expect_err("refused"), why, "{flags}");
        }
    }

    #[test]
    fn defaults_are_kube_apiservers() {
        let log = read("").expect("valid").expect("both are named").log.expect("a log");
        let rotation = Rotation { bytes_max: 100 << 20, backups_max: 100, days_max: 366, compress: false };
        let path = Some(PathBuf::from("l"));
        assert_eq!(log, LogConfig { path, format: Format::Json, rotation: Some(rotation), mode: Mode::Blocking, truncation: None });
        let log = read("--audit-log-maxsize=0 --audit-log-mode=batch --audit-log-truncate-enabled")
            .expect("valid")
            .expect("both are named")
            .log
            .expect("a log");
        let batching = Batching { buffer: 10_000, size_max: 1, wait_max: Duration::ZERO, throttle: None };
        assert_eq!((log.rotation, log.mode, log.truncation), (None, Mode::Batch(batching), Some(Truncation { event_bytes_max: 102_400 })));
    }

    #[test]
    fn the_webhook_has_defaults_of_its_own() {
        let (file, config) = read("--audit-webhook-config-file=w").expect("valid").expect("a policy").webhook.expect("a webhook");
        let batching = Batching { buffer: 10_000, size_max: 400, wait_max: Duration::from_secs(30), throttle: Some((10.0, 15)) };
        let expect = WebhookConfig { initial_backoff: Duration::from_secs(10), mode: Mode::Batch(batching), truncation: None };
        assert_eq!((file, config), ("w".into(), expect));
    }

    #[test]
    fn one_flag_alone_audits_nothing_and_says_so() {
        for flag in ["--audit-policy-file=p", "--audit-log-path=l", "--audit-webhook-config-file=w"] {
            let mut warnings = Vec::new();
            let line = Line::try_parse_from(["x", flag]).unwrap_or_else(|error| panic!("{error}"));
            assert!(matches!(audit(&line.audit, &mut warnings), Ok(None)) && warnings.len() == 1);
        }
    }
}
