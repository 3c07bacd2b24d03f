package config

import (
	"regexp"
	"strings"
)

// SavingConfig sets how a run resumes and which checkpoints are kept. Its keys are in
// the group trainer.
type SavingConfig struct {
	ResumeMode  string `yaml:"resume_mode" default:"auto" oneof:"auto disable resume_path" doc:"auto resumes the run in the folder if there is one, disable refuses a folder with a run, resume_path starts a new run from the checkpoint resume_from_path"`
	ResumeFrom  string `yaml:"resume_from_path" null:"" off:"" doc:"folder of a checkpoint, such as runs/vagen/run/checkpoints/step_100; the metrics of its run up to that step are copied"`
	AllowChange bool   `yaml:"allow_config_change" doc:"resume with a configuration that differs from that of the run or checkpoint; differences are logged"`
	Dir         string `yaml:"default_local_dir" null:"" doc:"folder of the run; empty is runs/<project_name>/<experiment_name>"`

	RemovePrevious bool   `yaml:"remove_previous_ckpt_in_save" doc:"keep only the newest checkpoint, regardless of the two keys below"`
	KeepActors     *int   `yaml:"max_actor_ckpt_to_keep" default:"1" count:"positive" noted:"trainer.remove_previous_ckpt_in_save is true" doc:"number of newest policies to keep; null keeps all. Policies without a complete checkpoint, because of max_critic_ckpt_to_keep, are kept as actor_step_<n>; a run cannot resume from them"`
	KeepCritics    *int   `yaml:"max_critic_ckpt_to_keep" default:"1" count:"positive" noted:"trainer.remove_previous_ckpt_in_save is true; critic.kind is none; critic.kind is shared" doc:"number of newest checkpoints to keep completely, with critic and optimiser; null keeps all"`
	BestActor      bool   `yaml:"save_best_actor" owner:"checkpoint" resume:"" doc:"save the policy of the best validation in the folder best_actor, independent of the number of checkpoints"`
	BestMetric     string `yaml:"best_actor_metric" default:"val/score" noted:"trainer.save_best_actor is false" owner:"trainer" resume:"" doc:"validation metric that selects the best policy: the largest value, or with a leading minus the smallest"`
	OnInterrupt    bool   `yaml:"save_on_interrupt" default:"true" owner:"trainer" doc:"on SIGINT, SIGTERM or SIGUSR1, finish the current optimiser steps and save a checkpoint, unless save_freq is negative"`
}

// HubConfig sets the export of models in the Hugging Face layout, and their upload.
type HubConfig struct {
	Freq     *int     `yaml:"hf_save_freq" count:"positive" doc:"export upload_contents to hf/step_<n> every hf_save_freq steps, a multiple of trainer.save_freq, and at the end; null disables it"`
	Contents []string `yaml:"upload_contents" default:"[hf_model]" noted:"huggingface_hub.hf_save_freq is null" oneof:"hf_model adapter" doc:"what to export, one folder each: hf_model is the policy with adapters merged, adapter is only the adapter in PEFT layout"`
	Repo     string   `yaml:"repo_id" null:"" doc:"owner/name of the model on the Hugging Face hub to upload exports to, or just name for the owner of the token. Uploads run in the background: the first of upload_contents to the root, the other to a folder. The token is the environment variable HF_TOKEN; empty disables uploads"`
	Private  bool     `yaml:"private" noted:"huggingface_hub.hf_save_freq is null; huggingface_hub.repo_id is empty" doc:"create the repository as private, if it does not exist"`
}

// The values of huggingface_hub.upload_contents, which are also folder names.
const (
	HubModel   = "hf_model"
	HubAdapter = "adapter"
)

// repository matches the name of a repository on the hub.
var repository = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Exports reports whether the policy is exported after a step. stale is the number of
// validations since the best one: a run that stops early ends at the step.
func (c *Config) Exports(step, stale int) bool {
	n := c.Hub.Freq
	return n != nil && *n > 0 && (step%*n == 0 || step == c.Trainer.Steps || c.Stability.Early.Stops(stale))
}

// resumePath is a value of trainer.resume_mode.
const resumePath = "resume_path"

// Kept returns how many of the newest checkpoints are kept completely, and of how many
// the policy is kept; 0 is all. Without a separate critic, both numbers are that of
// policies.
func (c *Config) Kept() (whole, actors int) {
	t := &c.Trainer
	if t.RemovePrevious {
		return 1, 1
	}
	count := func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	}
	whole, actors = count(t.KeepCritics), count(t.KeepActors)
	if c.Critic.Kind != "separate" {
		whole = actors
	}
	return whole, actors
}

// saving checks the settings of saving and resuming.
func (v *validator) saving(c *Config) {
	t := &c.Trainer
	switch {
	case t.ResumeMode == resumePath && t.ResumeFrom == "":
		v.Say("{trainer.resume_mode} is resume_path, but {trainer.resume_from_path} is empty")
	case t.ResumeMode != resumePath && t.ResumeFrom != "":
		v.Say("{trainer.resume_from_path} is %q, but {trainer.resume_mode} is %s: set it to resume_path", t.ResumeFrom,
			t.ResumeMode)
	}
	if whole, actors := c.Kept(); actors > 0 && (whole == 0 || whole > actors) { // a checkpoint includes its policy
		v.Say("{trainer.max_critic_ckpt_to_keep} keeps more checkpoints than the %d of {trainer.max_actor_ckpt_to_keep}, but a checkpoint includes its policy: it must not be larger", actors)
	}
	if strings.TrimPrefix(t.BestMetric, "-") == "" {
		v.Say("{trainer.best_actor_metric} is %q, must name a metric", t.BestMetric)
	}
	if group, test, _ := c.frequencies(); t.BestActor && test <= 0 && (t.Stage == StageSFT || !t.ValBefore) {
		v.Say("{trainer.save_best_actor} needs validations, but {%s.test_freq} is %d", group, test)
	}
	v.hub(c)
}

func (v *validator) hub(c *Config) {
	h := &c.Hub
	if h.Repo != "" && h.Freq != nil && !repository.MatchString(h.Repo) {
		v.Say("{huggingface_hub.repo_id} is %q, must be owner/name, or just name for the owner of the token", h.Repo)
	}
	for _, what := range h.Contents {
		if a := &c.Agent.Model; h.Freq != nil && what == HubAdapter && a.LoRARank == 0 && a.Adapter == "" {
			v.Say("{huggingface_hub.upload_contents} has adapter, but the policy has none: set {actor_rollout_ref.model.lora_rank}")
		}
	}
	if h.Freq == nil {
		return
	}
	if group, _, save := c.frequencies(); save < 1 || *h.Freq%save != 0 {
		v.Say("{huggingface_hub.hf_save_freq} is %d, must be a multiple of {%s.save_freq}, which is %d", *h.Freq,
			group, save)
	}
	v.once("huggingface_hub.upload_contents", h.Contents)
	if len(h.Contents) == 0 {
		v.Say("{huggingface_hub.upload_contents} is empty, must contain hf_model or adapter")
	}
}
