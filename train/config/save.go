package config

import (
	"regexp"
	"strings"
)

// SavingConfig says how a run goes on and what of it is kept. Its keys are those of
// group trainer.
type SavingConfig struct {
	ResumeMode  string `yaml:"resume_mode" doc:"auto goes on with the run that is in the folder, disable refuses a folder with a run, resume_path begins a run of its own with the checkpoint resume_from_path"`
	ResumeFrom  string `yaml:"resume_from_path" null:"" off:"" doc:"folder of a checkpoint, such as runs/vagen/run/checkpoints/step_100; its run's metrics until then come along"`
	AllowChange bool   `yaml:"allow_config_change" doc:"go on with another configuration than the run or the checkpoint has; what differs is logged"`
	Dir         string `yaml:"default_local_dir" null:"" doc:"folder of the run; empty is runs/<project_name>/<experiment_name>"`

	RemovePrevious bool   `yaml:"remove_previous_ckpt_in_save" doc:"keep the newest checkpoint alone, however many the two keys below allow"`
	KeepActors     *int   `yaml:"max_actor_ckpt_to_keep" doc:"newest policies to keep; null keeps all. Those that max_critic_ckpt_to_keep leaves out stand apart, as actor_step_<n>, and nothing can go on from them"`
	KeepCritics    *int   `yaml:"max_critic_ckpt_to_keep" doc:"newest checkpoints to keep whole, critic and optimiser included; null keeps all"`
	BestActor      bool   `yaml:"save_best_actor" doc:"keep the policy of the best validation in the folder best_actor, apart from checkpoints and their number"`
	BestMetric     string `yaml:"best_actor_metric" doc:"metric of validation that tells the best policy; the largest wins, with a minus in front the smallest"`
	OnInterrupt    bool   `yaml:"save_on_interrupt" doc:"on SIGINT or SIGTERM finish the optimiser steps that were begun and save, unless save_freq is negative"`
}

// HubConfig says what is written in the layout that others load.
type HubConfig struct {
	Freq     *int     `yaml:"hf_save_freq" doc:"write what upload_contents says to hf/step_<n> every so many steps, a multiple of trainer.save_freq, and at the end; null is never"`
	Contents []string `yaml:"upload_contents" doc:"what to write there, a folder each: hf_model is the policy with adapters merged in, adapter the adapter alone in PEFT's layout"`
	Repo     string   `yaml:"repo_id" null:"" doc:"owner/name of a model on the hub to upload that to, or name alone for the owner of the token, behind the training loop: the first of upload_contents to the root, the other to a folder. The token is HF_TOKEN of the environment; empty uploads nothing"`
	Private  bool     `yaml:"private" doc:"make the repository private where the upload creates it"`
}

// The values of huggingface_hub.upload_contents, and the folders they make.
const (
	HubModel   = "hf_model"
	HubAdapter = "adapter"
)

// repository is the name of one on the hub.
var repository = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Exports reports whether the policy is written for others after a step.
func (c *Config) Exports(step int) bool {
	n := c.Hub.Freq
	return n != nil && (step%*n == 0 || step == c.Trainer.Steps)
}

func defaultSaving() SavingConfig {
	actors, critics := 1, 1
	return SavingConfig{ResumeMode: resumeAuto, KeepActors: &actors, KeepCritics: &critics, BestMetric: "val/score", OnInterrupt: true}
}

// The values of trainer.resume_mode.
const (
	resumeAuto    = "auto"
	resumeDisable = "disable"
	resumePath    = "resume_path"
)

// Kept tells how many of the newest checkpoints are kept whole, and of how many the
// policy is; 0 is all. A policy without a critic of its own is kept whole.
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

// saving reports what of saving makes no sense.
func (v *validator) saving(c *Config) {
	t := &c.Trainer
	v.oneOf("trainer.resume_mode", t.ResumeMode, resumeAuto, resumeDisable, resumePath)
	switch {
	case t.ResumeMode == resumePath && t.ResumeFrom == "":
		v.say("trainer.resume_mode is resume_path, but trainer.resume_from_path is empty")
	case t.ResumeMode != resumePath && t.ResumeFrom != "":
		v.say("trainer.resume_from_path is %q, but trainer.resume_mode is %s: set it to resume_path", t.ResumeFrom, t.ResumeMode)
	}
	if n := t.KeepActors; n != nil {
		v.positive("trainer.max_actor_ckpt_to_keep", *n)
	}
	if n := t.KeepCritics; n != nil {
		v.positive("trainer.max_critic_ckpt_to_keep", *n)
	}
	if whole, actors := c.Kept(); actors > 0 && (whole == 0 || whole > actors) {
		v.say("trainer.max_critic_ckpt_to_keep keeps more checkpoints than the %d of max_actor_ckpt_to_keep, but a checkpoint without its policy is of no use", actors)
	}
	if strings.TrimPrefix(t.BestMetric, "-") == "" {
		v.say("trainer.best_actor_metric is %q, must name a metric", t.BestMetric)
	}
	if t.BestActor && t.TestFreq <= 0 && !t.ValBefore {
		v.say("trainer.save_best_actor needs validations, but trainer.test_freq is %d", t.TestFreq)
	}
	v.hub(c)
}

func (v *validator) hub(c *Config) {
	h := &c.Hub
	if h.Repo != "" && h.Freq != nil && !repository.MatchString(h.Repo) {
		v.say("huggingface_hub.repo_id is %q, must be owner/name, or name for the owner of the token", h.Repo)
	}
	for _, what := range h.Contents {
		v.oneOf("huggingface_hub.upload_contents", what, HubModel, HubAdapter)
		if a := &c.Agent.Model; h.Freq != nil && what == HubAdapter && a.LoRARank == 0 && a.Adapter == "" {
			v.say("huggingface_hub.upload_contents has adapter, but the policy has none: set actor_rollout_ref.model.lora_rank")
		}
	}
	if h.Freq == nil {
		return
	}
	v.positive("huggingface_hub.hf_save_freq", *h.Freq)
	if s := c.Trainer.SaveFreq; s < 1 || *h.Freq%s != 0 {
		v.say("huggingface_hub.hf_save_freq is %d, must be a multiple of trainer.save_freq, which is %d", *h.Freq, s)
	}
	if len(h.Contents) == 0 {
		v.say("huggingface_hub.upload_contents is empty, must be of hf_model and adapter")
	}
}
