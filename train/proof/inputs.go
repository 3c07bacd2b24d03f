package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"

	"vagen/internal/silent"
	"vagen/train/config"
	"vagen/train/rundir"
)

// Inputs are hashes of a run's inputs, which are computed while it trains.
type Inputs struct {
	done chan struct{}
	err  error // valid once done is closed
}

// Wait waits until the hashes are recorded. nil and the zero value have none.
func (i *Inputs) Wait() error {
	if i == nil || i.done == nil {
		return nil
	}
	<-i.done
	return i.err
}

// RecordInputs starts to record the SHA-256 of the files that a run reads: its data files, and
// paths by their use, as policy.InputLister returns them. Reading large weights takes seconds, so it does not
// wait for that. If ctx ends first, they are not recorded; files that cannot be read are logged, unless log is nil.
// A path that the configuration does not name for this use is recorded, too.
func (r *Recorder) RecordInputs(
	ctx context.Context, c *config.Config, paths map[string]string, log *slog.Logger,
) (*Inputs, error) {
	if c == nil {
		return nil, errors.New("proof: inputs: the configuration is nil")
	}
	log = silent.Log(log)
	known, others := inputPaths(c), map[string]string{}
	for use, path := range paths {
		if filepath.Clean(path) == filepath.Clean(known[use]) || use == "plugin" { // the process that verifies loads its own
			continue
		}
		name, err := nameIn(r.dir, path)
		if err != nil {
			return nil, fmt.Errorf("proof: inputs: %w", err)
		}
		others[use] = name
	}
	all := dataPaths(c)
	if maps.Copy(all, paths); len(all) == 0 {
		return nil, nil
	}
	i := &Inputs{done: make(chan struct{})}
	go func() {
		defer close(i.done)
		files, err := SumInputs(ctx, all)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("the inputs of the run are not recorded", "err", err)
		default:
			i.err = r.Add(Line{Kind: KindInputs, Files: files, Paths: others})
		}
	}()
	return i, nil
}

// addInputs adds recorded hashes; those of the same use replace earlier ones.
func (h *history) addInputs(l Line) {
	for name := range l.Files {
		use, _, _ := strings.Cut(name, "/")
		delete(h.paths, use)
		maps.DeleteFunc(h.inputs, func(old, _ string) bool {
			_, still := l.Files[old]
			return !still && (old == use || strings.HasPrefix(old, use+"/"))
		})
	}
	maps.Copy(h.inputs, l.Files)
	maps.Copy(h.paths, l.Paths)
}

// inputPaths returns where the inputs of a run are now.
func (r *Report) inputPaths(c *config.Config) map[string]string {
	paths := inputPaths(c)
	for use, name := range r.history.paths {
		paths[use] = rundir.Dir(r.Run).Path(name)
	}
	return paths
}
