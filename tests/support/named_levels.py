"""Lines as loggers write them, with the level that each names."""

from __future__ import annotations

NAMED_LEVELS = {
    "finished without an error": "info",
    "[error] it failed": "error",
    "level=warning msg=x": "warn",
    '{"level": "debug"}': "debug",
    '{"msg":"x","level":"error"}': "error",
    "CRITICAL meltdown": "fatal",
    "warning: low": "warn",
    "INFORMATION desk": "info",
    "2026-01-05 10:00:00,123 - app.db - ERROR - no connection": "error",
    "2026/01/05 10:00:00 [alert] 7#7: worker process exited": "fatal",
    "E0105 10:00:00.000000       1 leaderelection.go:330] error retrieving resource lock": "error",
    "I0105 10:00:00.000000       1 main.go:5] no ERROR_COUNT here": "info",
    "W0105 10:00:00.000000       1 reflector.go:441] watch ended": "warn",
    "Jan  5 10:00:00 SEVERE: [main] cannot deploy": "error",
    "ERRNO 5 and TERRORS": "info",
    "caf\u00e9ERROR": "error",
    "x" * 200 + " ERROR": "info",
    "": "info",
    "trace": "info",
    "level=": "info",
}
