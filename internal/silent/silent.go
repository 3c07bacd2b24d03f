// Package silent has the logger of those that were given none.
package silent

import (
	"cmp"
	"log/slog"
)

// Log returns a logger, for nil one that discards what it is told.
func Log(log *slog.Logger) *slog.Logger { return cmp.Or(log, slog.New(slog.DiscardHandler)) }
