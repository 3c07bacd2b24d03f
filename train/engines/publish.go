package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"vagen/policy/engine"
	"vagen/train/config"
)

// openFolder creates the folder for weights. run is the run's folder, which this process has
// locked, so that weights in it are from earlier processes, which did not end by themselves.
func (l *learner) openFolder(run string) error {
	e := &l.config.Agent.Rollout.Engine
	if l.dir = e.SyncDir; l.dir == "" {
		l.dir = filepath.Join(run, "engine")
	}
	var err error
	if l.dir, err = filepath.Abs(l.dir); err == nil {
		err = os.MkdirAll(l.dir, 0o755)
	}
	if err == nil && e.SyncDir == "" { // others may use a sync_dir, too
		err = removeWeights(l.dir)
	}
	if err != nil {
		return fmt.Errorf("%w: actor_rollout_ref.rollout.engine.sync_dir: %w", config.ErrConfig, err)
	}
	if l.shared = e.ServerDir; l.shared == "" {
		l.shared = filepath.ToSlash(l.dir)
	}
	return nil
}

// removeWeights removes the folders of Fleet.NewName.
func removeWeights(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "vagen-") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// errSnapshots means that weights were to be replaced under a collection.
var errSnapshots = errors.New("the servers still collect episodes with the weights from before the update")

// publish brings the weights to the servers if they have changed, and compares log-probs
// once. The mutex must be held.
func (l *learner) publish(ctx context.Context) error {
	if !l.changed {
		return nil
	}
	if l.snapshots > 0 && !l.config.Run.Partial {
		return fmt.Errorf("engines: %w", errSnapshots)
	}
	l.number++
	name := l.fleet.NewName(l.number)
	begin := time.Now()
	adapter, err := l.export(ctx, name)
	if err != nil {
		return fmt.Errorf("engines: weights of version %s: %w", name, err)
	}
	l.exported += time.Since(begin)
	v := engine.Version{Name: name, Path: path.Join(l.shared, name), Adapter: adapter, Step: l.step}
	if err := l.fleet.Publish(ctx, v); err != nil {
		return err
	}
	l.changed = false
	for len(l.folders) > 1 { // only the newest is needed from now on
		if err := os.RemoveAll(filepath.Join(l.dir, l.folders[0])); err != nil {
			return fmt.Errorf("engines: %w", err)
		}
		l.folders = l.folders[1:]
	}
	l.log.Debug("weights were brought to the servers", "version", name, "seconds", time.Since(begin).Seconds())
	if l.checked {
		return nil
	}
	if err := l.compare(ctx); err != nil {
		l.changed = true
		return err
	}
	l.checked = true
	return nil
}

// export writes the weights to a folder of their own, which appears complete. It reports
// whether they are adapters.
func (l *learner) export(ctx context.Context, name string) (adapter bool, err error) {
	m := &l.config.Agent.Model
	adapter = m.LoRARank > 0 || m.Adapter != ""
	write := l.Model.Export
	if adapter {
		write = l.Model.ExportAdapter
	}
	tmp := filepath.Join(l.dir, name+".tmp")
	if err = write(ctx, tmp); err == nil {
		err = os.Rename(tmp, filepath.Join(l.dir, name))
	}
	if err != nil {
		return adapter, errors.Join(err, os.RemoveAll(tmp))
	}
	l.folders = append(l.folders, name)
	return adapter, nil
}
