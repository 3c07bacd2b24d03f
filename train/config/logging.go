package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"vagen/rollout"
)

// LoggingConfig is the part of TrainerConfig that sets what a run logs, and where.
type LoggingConfig struct {
	Logger     []string `yaml:"logger" default:"[console, jsonl]" oneof:"console jsonl tensorboard prometheus mlflow wandb" resume:"free" doc:"destinations of metrics: console, jsonl, tensorboard, prometheus, mlflow. metrics.jsonl is always written, because resuming needs it; wandb is accepted with a note and writes nothing, see docs/results.md"`
	Prometheus string   `yaml:"prometheus_address" default:"localhost:9464" resume:"free" doc:"host:port of the /metrics endpoint, when logger has prometheus"`

	LogEpisodes int     `yaml:"log_val_generations" default:"4" count:"0" resume:"free" doc:"number of validation episodes to save with their images, selected by val_log_select; 0 is none"`
	ValSelect   string  `yaml:"val_log_select" default:"balanced" oneof:"balanced first failures successes worst best" noted:"trainer.log_val_generations is 0" resume:"free" doc:"which episodes log_val_generations saves: balanced (successes and failures of each environment), first, failures, successes, worst or best (by reward)"`
	ValRatio    float64 `yaml:"val_log_success_ratio" default:"0.5" noted:"trainer.log_val_generations is 0; .val_log_select is not balanced" range:"0,1" resume:"free" doc:"target share of successes for balanced, in [0, 1]"`

	RolloutDir    *string        `yaml:"rollout_data_dir" doc:"folder for the episodes of every training step, step_<n>.parquet each; null writes none"`
	RolloutScores bool           `yaml:"rollout_data_scores" resume:"free" doc:"record what every training step computed for each token, in step_<n>.scores.parquet in rollout_data_dir: old and reference log-probs, values, entropy, rewards, advantages, returns and masks. Costs about 10 bytes per token of an episode (22 per token of a response, 0 per other token); needs rollout_data_dir"`
	ValDir        *string        `yaml:"validation_data_dir" doc:"folder for the episodes of every validation, step_<n>.parquet each; null writes none"`
	LogImage      LogImageConfig `yaml:"log_image"`
}

// LogImageConfig sets whether images are stored with the episodes of
// rollout_data_dir and validation_data_dir.
type LogImageConfig struct {
	Enable     bool `yaml:"enable" doc:"store images as PNG files in the folder images next to the episodes of rollout_data_dir and validation_data_dir, each once, named by a hash of its content; otherwise only the names are stored"`
	MaxPending int  `yaml:"max_pending" default:"2" count:"positive" resume:"free" doc:"steps whose episodes may wait to be written while training continues; training waits when there are more"`
	Level      int  `yaml:"png_compress_level" noted:"trainer.log_image.enable is false" range:"0,9" must:"be from 0 to 9" doc:"PNG compression: 0 (none), 1 (fastest), 2 to 8 (default) or 9 (smallest)"`
	Quota      int  `yaml:"disk_quota_mb" count:"0" noted:"trainer.log_image.enable is false" doc:"maximum megabytes of images in a folder; further images are not stored, with a warning. 0 is no limit"`
}

// The values of trainer.logger.
const (
	LogConsole     = "console"
	LogJSONL       = "jsonl"
	LogTensorBoard = "tensorboard"
	LogPrometheus  = "prometheus"
	LogMLflow      = "mlflow"
	LogWandB       = "wandb" // accepted with a note, because recipes name it; writes nothing
)

// Logs reports whether trainer.logger contains name.
func (c *LoggingConfig) Logs(name string) bool { return slices.Contains(c.Logger, name) }

// Shown selects the validation episodes to save, by val_log_select.
func (c *LoggingConfig) Shown(ts []*rollout.Trajectory) ([]*rollout.Trajectory, error) {
	played := make([]rollout.Candidate, len(ts))
	for i, t := range ts {
		t = cmp.Or(t, new(rollout.Trajectory))
		played[i] = rollout.Candidate{Source: t.Env, Success: t.Success, Reward: t.Return()}
		if !t.End.Usable() {
			played[i].Reward = math.NaN()
		}
	}
	chosen, err := rollout.Choice(c.ValSelect).Choose(played, c.LogEpisodes, c.ValRatio)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	out := make([]*rollout.Trajectory, len(chosen))
	for i, k := range chosen {
		out[i] = ts[k]
	}
	return out, nil
}

// once checks that a list has no entry twice.
func (v *validator) once(key string, list []string) {
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			v.Say("{%s} has %s twice", key, name)
		}
	}
}

// logging checks the settings of logging.
func (v *validator) logging(c *Config) {
	t := &c.Trainer
	v.once("trainer.logger", t.Logger)
	if t.Logs(LogPrometheus) {
		if _, port, err := net.SplitHostPort(t.Prometheus); err != nil {
			v.Say("{trainer.prometheus_address} is %q, must be host:port: %w", t.Prometheus, err)
		} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			v.Say("{trainer.prometheus_address} is %q, its port must be from 0 to 65535", t.Prometheus)
		}
	}
	for _, dir := range []struct {
		key  string
		path *string
	}{{"rollout_data_dir", t.RolloutDir}, {"validation_data_dir", t.ValDir}} {
		if dir.path != nil && *dir.path == "" {
			v.Say("{trainer.%s} is empty, must be a folder or null", dir.key)
		}
	}
	if t.RolloutScores && t.RolloutDir == nil {
		v.Say("{trainer.rollout_data_scores} is true, but {trainer.rollout_data_dir} is null: set the folder, or rollout_data_scores to false")
	}
	if t.RolloutDir != nil && t.ValDir != nil && filepath.Clean(*t.RolloutDir) == filepath.Clean(*t.ValDir) {
		v.Say("{trainer.rollout_data_dir} and {trainer.validation_data_dir} are both %q, must differ: both would write step_<n>.parquet there", *t.RolloutDir)
	}
}
