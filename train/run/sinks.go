package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"vagen/internal/origin"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
	"vagen/train/track/mlflow"
	"vagen/train/track/tensorboard"
)

// open creates the sinks in trainer.logger. Sinks that need a run's history get the events
// up to the checkpoint.
func (r *Run) open(ctx context.Context, o Options) error {
	c := &r.Config
	if err := r.record(ctx); err != nil {
		return err
	}
	if err := r.archive(); err != nil {
		return err
	}
	lines, err := r.Folder.Metrics()
	if err != nil {
		return err
	}
	own := func(s ...track.Sink) { r.own = append(r.own, s...) } // Close closes them even if a later one fails to open
	own(lines)                                                   // is always written; resuming needs the metrics
	if c.Trainer.Logs(config.LogConsole) && o.Console != nil {
		own(track.NewConsole(o.Console))
	}
	history := []track.Sink{r.Curve}
	if c.Trainer.Logs(config.LogTensorBoard) {
		t, err := tensorboard.New(filepath.Join(r.Folder.Path, "tensorboard"))
		if err != nil {
			return err
		}
		own(t)
		if _, ok := policy.As[policy.Restorer](r.Learner); ok && c.Trainer.ResumeMode != "disable" {
			from := 0
			if r.from != nil {
				from = r.Done() + 1
			}
			if err := t.Restart(from); err != nil {
				return err
			}
		}
	}
	if c.Trainer.Logs(config.LogPrometheus) {
		p := &track.Prometheus{}
		if err := r.serve(p); err != nil {
			return err
		}
		history = append(history, p)
	}
	own(history...)
	if c.Trainer.Logs(config.LogMLflow) {
		params := map[string]string{}
		for _, k := range config.SafeKeys(c) {
			params[k.Path] = config.ValueText(k.Value)
		}
		m, err := mlflow.New(mlflow.Options{
			Dir: r.Folder.Path, Metrics: r.Folder.dir().Path(rundir.MetricsName),
			Project: c.Trainer.Project, Experiment: c.Trainer.Experiment, Params: params, Log: o.Log, Done: r.Done(),
			Redo: r.from != nil && r.from.State.Stability.Rollbacks > 0 || len(r.changed)+len(r.Folder.Changed) > 0,
		})
		if err != nil {
			return fmt.Errorf("%w: trainer.logger: %w", config.ErrConfig, err)
		}
		own(m) // it reads the history itself
	}
	r.Sinks = append(slices.Clone(r.own), o.Sinks...)
	for _, s := range history {
		for _, e := range r.past {
			if err := s.Event(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve serves metrics to Prometheus until Close.
func (r *Run) serve(p http.Handler) error {
	l, err := net.Listen("tcp", r.Config.Trainer.Prometheus)
	if err != nil {
		return fmt.Errorf("trainer.prometheus_address: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p)
	r.server = origin.Server(mux, r.log)
	go r.server.Serve(l)
	r.log.Info("metrics for Prometheus", "url", "http://"+l.Addr().String()+"/metrics")
	return nil
}

// Close closes the sinks that Open created and the learner if it is an io.Closer, and unlocks
// the folder. Further calls do nothing.
func (r *Run) Close() error {
	if r.unlock == nil {
		return nil
	}
	var errs []error
	if r.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if r.server.Shutdown(ctx) != nil { // a client still has a connection
			errs = append(errs, r.server.Close())
		}
	}
	errs = append(errs, r.archives.close(), r.inputs.Wait())
	for _, s := range r.own {
		errs = append(errs, s.Close())
	}
	errs = append(errs, r.queue.Close())
	if r.ownEnvs {
		errs = append(errs, r.Envs.Close())
	}
	if l, ok := policy.As[io.Closer](r.Learner); ok {
		errs = append(errs, l.Close())
	}
	errs = append(errs, r.unlock())
	r.unlock = nil
	return errors.Join(errs...)
}
