"""A process that starts, stops and reports: settings, logs, probes, metrics, tracing, signals."""
