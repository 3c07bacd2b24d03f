package mlflow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// pair is a parameter or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// metric is a figure at a step.
type metric struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"` // must be finite: JSON has no other
	Time  int64   `json:"timestamp"`
	Step  int64   `json:"step"`
}

// The states of a run.
const (
	running  = "RUNNING"
	finished = "FINISHED"
	failed   = "FAILED"
	killed   = "KILLED"
)

// Limits of one request, from MLflow's reference.
const (
	maxMetrics = 1000
	maxParams  = 100
	maxValue   = 500 // of a parameter in older servers; newer ones allow more
)

// experiment finds an experiment by name or makes it.
func (c *client) experiment(ctx context.Context, name string) (string, error) {
	id, err := c.find(ctx, name)
	if !missing(err) {
		return id, err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = c.call(ctx, http.MethodPost, "experiments/create", map[string]string{"name": name}, &made)
	if f, ok := errors.AsType[*fault](err); ok && f.Code == "RESOURCE_ALREADY_EXISTS" { // another process created it first
		return c.find(ctx, name)
	}
	return made.ID, err
}

func (c *client) find(ctx context.Context, name string) (string, error) {
	var got struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
	}
	if err := c.call(ctx, http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil,
		&got); err != nil {
		return "", err
	}
	if got.Experiment.Stage == "deleted" {
		return "", fmt.Errorf("mlflow: %w: the experiment %q has been deleted; restore it or choose another trainer.project_name", errRefused, name)
	}
	return got.Experiment.ID, nil
}

// begin starts a run and returns its id.
func (c *client) begin(ctx context.Context, experiment, name string, at time.Time) (string, error) {
	var got struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}
	in := map[string]any{
		"experiment_id": experiment, "run_name": name, "start_time": at.UnixMilli(),
		"tags": []pair{{"mlflow.runName", name}, {"mlflow.source.name", "vagen"}, {"mlflow.source.type", "LOCAL"}},
	}
	err := c.call(ctx, http.MethodPost, "runs/create", in, &got)
	if err == nil && got.Run.Info.ID == "" {
		err = fmt.Errorf("mlflow: runs/create: %w: the answer has no run_id", errRefused)
	}
	return got.Run.Info.ID, err
}

// setStatus sets the state of a run.
func (c *client) setStatus(ctx context.Context, run, status string, at time.Time) error {
	in := map[string]any{"run_id": run, "status": status}
	if status != running {
		in["end_time"] = at.UnixMilli()
	}
	return c.call(ctx, http.MethodPost, "runs/update", in, nil)
}

// state returns the highest step of each figure that a run has, and whether the run was deleted.
func (c *client) state(ctx context.Context, run string) (steps map[string]int64, deleted bool, err error) {
	var got struct {
		Run struct {
			Info struct {
				Stage string `json:"lifecycle_stage"`
			} `json:"info"`
			Data struct {
				Metrics []struct {
					Key  string `json:"key"`
					Step int64  `json:"step"`
				} `json:"metrics"`
			} `json:"data"`
		} `json:"run"`
	}
	if err := c.call(ctx, http.MethodGet, "runs/get?run_id="+url.QueryEscape(run), nil, &got); err != nil {
		return nil, missing(err), err
	}
	steps = map[string]int64{}
	for _, m := range got.Run.Data.Metrics {
		steps[m.Key] = max(steps[m.Key], m.Step)
	}
	return steps, got.Run.Info.Stage == "deleted", nil
}

// deleted reports whether a run, which existed, is not among those of the server any more.
func (c *client) deleted(ctx context.Context, run string) bool {
	_, deleted, _ := c.state(ctx, run)
	return deleted
}

// missing reports whether the server says that it does not have what a request is about.
func missing(err error) bool {
	f, ok := errors.AsType[*fault](err)
	return ok && (f.Code == "RESOURCE_DOES_NOT_EXIST" || f.Status == http.StatusNotFound)
}

// logParams stores settings. Values that are longer than all servers take are cut.
func (c *client) logParams(ctx context.Context, run string, params []pair) error {
	short := slices.Clone(params)
	for i := range short {
		short[i].Key = validName(short[i].Key)
		if v := short[i].Value; len(v) > maxValue {
			short[i].Value = strings.ToValidUTF8(v[:maxValue-3], "") + "…"
		}
	}
	return logBatches(ctx, c, run, "params", short, maxParams)
}

// logBatches stores figures or settings, at most so many in a request.
func logBatches[T any](ctx context.Context, c *client, run, what string, all []T, most int) error {
	for part := range slices.Chunk(all, most) {
		if err := c.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": run, what: part},
			nil); err != nil {
			return err
		}
	}
	return nil
}

// validName replaces what MLflow rejects in a name. Allowed are letters, digits, _ - . / and spaces, as a
// path without empty parts; at most 250 bytes.
func validName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || r == '-' || r == '.' || r == '/' || r == ' ' || r >= '0' && r <= '9' || r|0x20 >= 'a' &&
			r|0x20 <= 'z') {
			return r
		}
		return '_'
	}, s)
	parts := strings.Split(s, "/")
	for i, p := range parts {
		if p == "" || p == "." || p == ".." {
			parts[i] = "_"
		}
	}
	s = strings.Join(parts, "/")
	return s[:min(len(s), 250)]
}

// afterOf returns the delay that the server asks for in an error.
func afterOf(err error) time.Duration {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.after
	}
	return 0
}
