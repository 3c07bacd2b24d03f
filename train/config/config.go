package config

import (
	"errors"

	"vagen/advantage"
	"vagen/policy/loss"
)

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("bad configuration")

// Config says how to train. Keys have the names that VAGEN's users know; fields
// without a counterpart there stand in the groups run, env and model.
type Config struct {
	// System says which generation of VAGEN keys and names come from; "" is this
	// library. It chooses defaults and estimators when a Source is loaded.
	System string `yaml:"system" null:"" doc:"generation of VAGEN that the keys come from: legacy (the full system), lite or next. It chooses the defaults of that generation, and what gae, grpo and bi_level_gae mean in algorithm.adv_estimator; null is the defaults and names of this library. Defaults of logging, validation frequency and saving are this library's with any"`

	Run       RunConfig       `yaml:"run"`
	Env       EnvConfig       `yaml:"env"`
	Model     ModelConfig     `yaml:"model"`
	Algorithm AlgorithmConfig `yaml:"algorithm"`
	Reward    RewardConfig    `yaml:"reward"`
	Filter    FilterConfig    `yaml:"filter"`
	Data      DataConfig      `yaml:"data"`
	Rollout   RolloutConfig   `yaml:"rollout_manager"`
	Agent     AgentConfig     `yaml:"actor_rollout_ref"`
	Critic    CriticConfig    `yaml:"critic"`
	Trainer   TrainerConfig   `yaml:"trainer"`
	Stability StabilityConfig `yaml:"stability"`
	Hub       HubConfig       `yaml:"huggingface_hub"`

	Notes []Note `yaml:"-"` // on keys without effect, and on what may surprise; of no effect
}

// RunConfig is about the run as a whole.
type RunConfig struct {
	Seed    uint64 `yaml:"seed" doc:"decides every random draw of the run"`
	Workers int    `yaml:"workers" doc:"environments worked on at once; changes no result"`
	Waves   int    `yaml:"waves" doc:"batches of episodes between which generation and environments overlap; changes results only through rounding"`

	Async bool `yaml:"async" doc:"collect the coming step's episodes while a step's update runs, with the policy as it was before that update; takes the memory of one more copy of its weights. algorithm.rollout_correction can make up for the difference"`

	EnvTimeout     float64 `yaml:"env_timeout" doc:"seconds that a call of an environment may take; 0 is 600, in which remote ones may ask again"`
	EpisodeTimeout float64 `yaml:"episode_timeout" doc:"seconds that an environment may take over an episode in all; 0 is no limit"`
	Patience       float64 `yaml:"patience" doc:"seconds until a round goes on without the environments that are still at work; 0 waits for all, which alone repeats a run to the last bit"`
	Retry          bool    `yaml:"retry" doc:"play episodes again whose environment failed or whose response cannot be used, some of them more than once"`
}

// EnvConfig names the environment to train on.
type EnvConfig struct {
	Name    string         `yaml:"name" null:"" doc:"environment, by its name in the registry"`
	Config  map[string]any `yaml:"config" replaces:"state_reward: use_state_reward grounding_reward_weight worldmodeling_reward_weight; use_state_reward: state_reward" doc:"options of the environment. A mapping adds to what a preset or a file before it says, and null for an option takes it away, for all of env.config all of them; state_reward replaces a preset's use_state_reward and its weights, and null or false for it switches them off"`
	Seed    int64          `yaml:"train_seed" doc:"first seed of the training levels"`
	ValSeed int64          `yaml:"val_seed" doc:"first seed of the validation levels; must not reach into the training levels"`
}

// ModelConfig says how the model runs.
type ModelConfig struct {
	Backend     string `yaml:"backend" doc:"auto, xla, cuda or go"`
	BFloat16    bool   `yaml:"bfloat16" doc:"compute activations in bfloat16"`
	Recompute   string `yaml:"recompute" doc:"nothing, attention or blocks: what the backward pass computes again to save memory"`
	MicroTokens int    `yaml:"micro_tokens" doc:"tokens that go through the network at once; 0 is 4096"`
	CacheTokens int    `yaml:"cache_tokens" doc:"smallest length of a conversation's cache in tokens"`
}

// AlgorithmConfig chooses the estimator.
type AlgorithmConfig struct {
	Estimator   string           `yaml:"adv_estimator" doc:"advantage estimator by name"`
	Gamma       float64          `yaml:"gamma" doc:"discount per token, in [0, 1]"`
	Lambda      float64          `yaml:"lam" doc:"GAE's lambda, in [0, 1]"`
	TurnGamma   float64          `yaml:"high_level_gamma" doc:"discount per turn of bi-level and turn-wise GAE, in [0, 1]"`
	TurnLambda  float64          `yaml:"lambda_turn" doc:"lambda from turn to turn of trajectory_bi_level_gae, in [0, 1]"`
	TokenLambda float64          `yaml:"lambda_token" doc:"lambda within a turn of trajectory_bi_level_gae, in [0, 1]"`
	Mix         float64          `yaml:"bi_level_mix" doc:"trajectory_bi_level_gae: 0 is token-level GAE, 1 the bi-level one, in [0, 1]"`
	StepWeight  float64          `yaml:"step_advantage_w" doc:"gigpo: weight of the comparison between turns from one state"`
	PassK       int              `yaml:"pass_k" doc:"grpo_passk: episodes of a group of which the best counts; 0 is all of them"`
	Epsilon     float64          `yaml:"epsilon" doc:"added to the standard deviations of groups; 0 is 1e-6"`
	Whiten      bool             `yaml:"whiten" doc:"whiten the advantages of estimators that do"`
	NormByStd   bool             `yaml:"norm_adv_by_std_in_grpo" doc:"divide group-relative advantages by the group's standard deviation"`
	KLPenalty   string           `yaml:"kl_penalty" doc:"estimate of the KL in the reward: kl, abs, mse or low_var_kl"`
	KLInReward  bool             `yaml:"use_kl_in_reward" doc:"charge tokens for leaving the reference policy"`
	KLMask      string           `yaml:"kl_mask" doc:"which tokens use_kl_in_reward charges: response, those that the model wrote, or attention, all of a row, as the full VAGEN system does"`
	KLCtrl      KLConfig         `yaml:"kl_ctrl"`
	Correction  CorrectionConfig `yaml:"rollout_correction"`
}

// KLConfig sets the controller of the KL penalty in the reward.
type KLConfig struct {
	Type    string  `yaml:"type" doc:"fixed or adaptive"`
	Coef    float64 `yaml:"kl_coef" doc:"coefficient, or its start when adaptive"`
	Target  float64 `yaml:"target_kl" doc:"wanted KL when adaptive"`
	Horizon float64 `yaml:"horizon" doc:"rows over which a full error changes the coefficient by a fifth, when adaptive"`
}

// DataConfig sizes the batches of episodes.
type DataConfig struct {
	TrainFiles []string `yaml:"train_files" doc:"files of environments to train on, YAML or parquet as vagen dataset reads them, in place of env.name; their max_turns and lengths count before those here"`
	ValFiles   []string `yaml:"val_files" doc:"files of environments to validate on"`
	Shuffle    bool     `yaml:"shuffle" doc:"play the episodes of train_files in another order in every epoch"`
	BaseSeed   int64    `yaml:"base_seed" doc:"shifts the seeds that lists of environments draw"`

	TrainBatch  int            `yaml:"train_batch_size" doc:"start states per step; each is played rollout_manager.n_trajectory times"`
	ValBatch    int            `yaml:"val_batch_size" null:"0" doc:"validation episodes; with val_files, which are all played, how many at once; null is all"`
	MaxResponse int            `yaml:"max_response_length" unit:"tokens" doc:"longest response of a turn; with response_length_per_turn all that may follow a conversation's opening, observations too"`
	PerTurn     int            `yaml:"response_length_per_turn" null:"0" unit:"tokens" doc:"longest response of a turn where max_response_length is about whole conversations; null takes that of train_files if they have one"`
	Truncation  string         `yaml:"truncation" doc:"what becomes of an opening longer than max_prompt_length: error leaves the episode out, right cuts its observation at the end, left at the beginning"`
	Template    map[string]any `yaml:"apply_chat_template_kwargs" doc:"variables for the model's chat template, such as enable_thinking"`
	DropLong    bool           `yaml:"filter_overlong_prompts" doc:"before the first step reset every environment of train_files and val_files once, and leave out those whose opening is longer than max_prompt_length; otherwise they cost their episode when they are played. total_epochs counts steps by the files as they are"`
	MaxPrompt   int            `yaml:"max_prompt_length" doc:"longest opening of a conversation in tokens, instructions and first observation; 0 is no limit"`
	GenBatch    int            `yaml:"gen_batch_size" null:"0" doc:"start states played at first for those of a step; further ones make up for such as cannot be used. 0 plays train_batch_size and makes up for none"`
}

// RolloutConfig says how episodes are played and paid.
type RolloutConfig struct {
	MaxTurns        int     `yaml:"max_turns" doc:"longest episode in turns"`
	Trajectories    int     `yaml:"n_trajectory" doc:"episodes per start state"`
	MultiTurnReward bool    `yaml:"use_multi_turn_reward" doc:"put each turn's reward on the turn's last token instead of all on the row's"`
	LossMask        bool    `yaml:"use_loss_mask" doc:"keep tokens that the model did not write out of the losses"`
	GAEMask         bool    `yaml:"use_gae_mask" doc:"keep tokens that the model did not write out of masked_gae's recursion"`
	WindowSize      *int    `yaml:"window_size" doc:"turns before the current one that the model remembers with trainer.harness window; 0 is the current turn alone; null is no window: harness concat shows all turns"`
	MaxTrajectory   int     `yaml:"max_trajectory_length" doc:"longest conversation in tokens; an episode without room for another response ends, or is summed up. 0 leaves it to the model"`
	UseService      bool    `yaml:"use_service" doc:"play environments on a service at base_url, over the protocol of the full VAGEN system; env.name may then be any that the service knows"`
	BaseURL         string  `yaml:"base_url" doc:"address of the service of use_service; vagen serve is one"`
	Timeout         float64 `yaml:"timeout" unit:"seconds" doc:"longest request to the service of use_service"`
	MaxWorkers      int     `yaml:"max_workers" doc:"requests to the service of use_service at once, in place of run.workers"`

	MaxObservation int `yaml:"max_env_response_per_turn" doc:"longest observation after the first in tokens; more is cut off. 0 is no limit"`
}

// AgentConfig groups what is about the policy.
type AgentConfig struct {
	Model   AgentModelConfig `yaml:"model"`
	Actor   ActorConfig      `yaml:"actor"`
	Rollout SamplingConfig   `yaml:"rollout"`
}

// AgentModelConfig names the policy's model and says what of it is trained.
type AgentModelConfig struct {
	Path      string   `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout"`
	LoRARank  int      `yaml:"lora_rank" doc:"rank of low-rank adapters that are trained in place of the weights; 0 trains the weights"`
	LoRAAlpha float64  `yaml:"lora_alpha" doc:"scale of the adapters times their rank"`
	Targets   []string `yaml:"target_modules" doc:"linear maps with adapters, by the last parts of their names, such as q_proj; empty means all of the decoder"`
	Recompute *bool    `yaml:"enable_gradient_checkpointing" doc:"compute the activations of blocks again in the backward pass to save memory; true is model.recompute blocks, false nothing, null leaves it to that key"`
	Adapter   string   `yaml:"lora_adapter_path" null:"" doc:"folder of an adapter in PEFT's layout to train on, in place of a new one"`
}

// PathConfig names a model.
type PathConfig struct {
	Path string `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout; empty starts a separate critic from the policy"`
}

// BatchConfig sizes micro-batches: what goes through the network at once. It changes
// no result but by rounding.
type BatchConfig struct {
	MicroRows   int  `yaml:"ppo_micro_batch_size_per_gpu" null:"0" unit:"rows" doc:"rows, or stretches of several short ones, that go through the network at once; null is as many as model.micro_tokens allows"`
	Dynamic     bool `yaml:"use_dynamic_bsz" doc:"size micro-batches by ppo_max_token_len_per_gpu instead of by rows"`
	MicroTokens int  `yaml:"ppo_max_token_len_per_gpu" unit:"tokens" doc:"tokens that go through the network at once with use_dynamic_bsz"`
}

// ActorConfig sets the policy's updates.
type ActorConfig struct {
	BatchConfig
	Shuffle     bool             `yaml:"shuffle" doc:"draw the episodes of mini-batches at random instead of in their order"`
	Optim       OptimConfig      `yaml:"optim"`
	MiniBatch   int              `yaml:"ppo_mini_batch_size" doc:"episodes per optimiser step"`
	Epochs      int              `yaml:"ppo_epochs" doc:"passes over a step's episodes"`
	GradClip    float64          `yaml:"grad_clip" doc:"largest global norm of the gradient"`
	NormLimit   float64          `yaml:"grad_norm_threshold" doc:"skip optimiser steps whose gradient norm reaches this; 0 is off"`
	Clip        float64          `yaml:"clip_ratio" doc:"PPO's epsilon"`
	ClipLow     *float64         `yaml:"clip_ratio_low" doc:"epsilon below 1; null takes clip_ratio"`
	ClipHigh    *float64         `yaml:"clip_ratio_high" doc:"epsilon above 1; null takes clip_ratio"`
	ClipDual    float64          `yaml:"clip_ratio_c" doc:"bound of dual clip; 0 is off"`
	Freeze      bool             `yaml:"freeze_vision_tower" doc:"leave the vision tower and its merger as they are, a separate critic's too"`
	Loss        PolicyLossConfig `yaml:"policy_loss"`
	TauPos      float64          `yaml:"tau_pos" doc:"sapo: sharpness of the gate where the advantage is positive"`
	TauNeg      float64          `yaml:"tau_neg" doc:"sapo: elsewhere"`
	Aggregation string           `yaml:"loss_agg_mode" doc:"how tokens are averaged: token-mean, seq-mean-token-sum, seq-mean-token-mean, seq-mean-token-sum-norm; of entropy and KL alone when the policy loss has a mode of its own"`
	ScaleFactor *float64         `yaml:"loss_scale_factor" doc:"divisor of seq-mean-token-sum-norm; null takes the most tokens a model can write in an episode"`
	Entropy     float64          `yaml:"entropy_coeff" doc:"weight of the entropy bonus"`
	UseKLLoss   bool             `yaml:"use_kl_loss" doc:"add the KL to the reference policy to the loss"`
	KLLoss      float64          `yaml:"kl_loss_coef" doc:"weight of the KL loss"`
	KLLossType  string           `yaml:"kl_loss_type" doc:"kl, abs, mse or low_var_kl"`
}

// OptimConfig sets AdamW.
type OptimConfig struct {
	Rate        float64 `yaml:"lr" doc:"learning rate"`
	WarmupSteps int     `yaml:"lr_warmup_steps" unit:"steps" doc:"training steps over which the rate rises from 0; 0 or less leaves it to lr_warmup_steps_ratio"`
	WarmupRatio float64 `yaml:"lr_warmup_steps_ratio" doc:"share of the training steps over which the rate rises from 0"`
	Style       string  `yaml:"warmup_style" null:"constant" doc:"constant, cosine or linear after the warm-up"`
	MinRatio    float64 `yaml:"min_lr_ratio" null:"0" doc:"share of the rate at the end of a falling schedule"`
	Beta1       float64 `yaml:"beta1" doc:"decay of the first moment"`
	Beta2       float64 `yaml:"beta2" doc:"decay of the second moment"`
	Decay       float64 `yaml:"weight_decay" doc:"decoupled weight decay"`
}

// SamplingConfig sets how responses are sampled in training; validation uses val_kwargs.
type SamplingConfig struct {
	Name        string    `yaml:"name" doc:"what writes the responses: xla, the model that is trained, in this process. vllm, sglang and hf are accepted with a warning and mean the same"`
	MaxImages   int       `yaml:"limit_mm_per_prompt" null:"0" unit:"images" doc:"pictures of a conversation; an episode without room for the next one ends. null is no limit"`
	Temperature float64   `yaml:"temperature" doc:"divides the logits"`
	TopP        float64   `yaml:"top_p" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int       `yaml:"top_k" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
	Thinking    int       `yaml:"thinking_token_budget" null:"0" unit:"tokens" doc:"longest thinking between two tags; then the closing tag is written for the model, in training and validation. Tokens of such a tag are not learned. null is no limit"`
	ThinkOpen   string    `yaml:"thinking_open" null:"" doc:"tag that opens thinking; empty where the chat template writes it, so that responses begin inside"`
	ThinkClose  string    `yaml:"thinking_close" doc:"tag that closes thinking"`
	Val         ValConfig `yaml:"val_kwargs"`
}

// ValConfig is SamplingConfig at validation.
type ValConfig struct {
	DoSample    *bool   `yaml:"do_sample" doc:"draw tokens; false takes the most likely one, as temperature 0 does, null leaves it to temperature"`
	Episodes    int     `yaml:"n" unit:"episodes" doc:"episodes of each validation level"`
	Temperature float64 `yaml:"temperature" doc:"divides the logits; 0 is greedy"`
	TopP        float64 `yaml:"top_p" doc:"as in training"`
	TopK        int     `yaml:"top_k" doc:"as in training"`
}

// CriticConfig sets the critic.
type CriticConfig struct {
	Enable      *bool       `yaml:"enable" doc:"false is kind none; true and null leave it to kind"`
	Kind        string      `yaml:"kind" doc:"separate (a model of its own), shared (a head on the policy) or none"`
	Model       PathConfig  `yaml:"model"`
	Optim       OptimConfig `yaml:"optim"`
	MiniBatch   *int        `yaml:"ppo_mini_batch_size" doc:"episodes per optimiser step of a separate critic; null is the actor's"`
	Epochs      *int        `yaml:"ppo_epochs" doc:"passes of a separate critic; null is the actor's"`
	Shuffle     *bool       `yaml:"shuffle" doc:"whether a separate critic draws its mini-batches; null is the actor's"`
	GradClip    *float64    `yaml:"grad_clip" doc:"largest global norm of a separate critic's gradient; null is the actor's"`
	NormLimit   *float64    `yaml:"grad_norm_threshold" doc:"skip steps of a separate critic whose gradient norm reaches this; 0 is off, null the actor's"`
	MicroRows   int         `yaml:"ppo_micro_batch_size_per_gpu" null:"0" unit:"rows" doc:"that of the actor for a separate critic; null is the actor's"`
	Dynamic     *bool       `yaml:"use_dynamic_bsz" doc:"that of the actor for a separate critic; null is the actor's"`
	MicroTokens int         `yaml:"ppo_max_token_len_per_gpu" unit:"tokens" doc:"that of the actor for a separate critic"`
	ValueClip   float64     `yaml:"cliprange_value" doc:"how far a value may move from the old one; 0 is off"`
	ValueCoef   float64     `yaml:"value_coef" doc:"weight of the value loss"`
	OnTurnEnds  bool        `yaml:"use_reward_mask" doc:"train on turn ends only, which turn_wise_gae needs"`
	ZeroHead    bool        `yaml:"zero_head" doc:"start a new value head with zeros"`
}

// TrainerConfig says how long to train and what to write.
type TrainerConfig struct {
	Steps        int      `yaml:"total_training_steps" null:"-1" doc:"training steps; null, and with train_files leaving it out, makes total_epochs passes over data.train_files"`
	Epochs       int      `yaml:"total_epochs" doc:"passes over data.train_files when total_training_steps is null"`
	Project      string   `yaml:"project_name" doc:"first part of the run folder's name"`
	Experiment   string   `yaml:"experiment_name" doc:"second part of the run folder's name"`
	TestFreq     int      `yaml:"test_freq" doc:"validate every so many steps; 0 or less is never"`
	SaveFreq     int      `yaml:"save_freq" doc:"save every so many steps, and at the end; 0 is at the end only, -1 never"`
	ValBefore    bool     `yaml:"val_before_train" doc:"validate before the first step"`
	CriticWarmup int      `yaml:"critic_warmup" doc:"steps that train the critic alone"`
	MaxSkipped   int      `yaml:"max_skipped_updates" doc:"stop after so many skipped optimiser steps in a row"`
	Metrics      []string `yaml:"metrics" doc:"what to measure at every step, by name in package rollout/diagnose; [all] or [none]"`
	LoggingConfig

	Harness        string `yaml:"harness" doc:"how episodes become conversations, each of them a training row: concat (one), no_concat (one a turn), window (the last turns), compact (one until it is full, then another with a summary)"`
	CompactBudget  int    `yaml:"compact_budget" doc:"compact: tokens at which a conversation is summed up; 0 does so when max_trajectory_length is reached"`
	CompactSummary int    `yaml:"compact_summary_budget" doc:"compact: longest summary in tokens; 0 takes a quarter of compact_budget, or the longest response if that is less"`

	SavingConfig
}

// Default returns the defaults of the full VAGEN system where it has any.
func Default() Config {
	optim := func(rate float64) OptimConfig {
		return OptimConfig{Rate: rate, WarmupSteps: -1, Style: "constant", Beta1: 0.9, Beta2: 0.999, Decay: 0.01}
	}
	return Config{
		Run:       RunConfig{Workers: 2, Waves: 1},
		Env:       EnvConfig{Seed: 1_000_000},
		Model:     ModelConfig{Backend: "auto", Recompute: "nothing"},
		Algorithm: AlgorithmConfig{Estimator: "gae", Gamma: 1, Lambda: 1, TurnGamma: 0.99, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75, StepWeight: 1, Whiten: true, NormByStd: true, KLPenalty: "kl", KLMask: KLResponse, KLCtrl: KLConfig{Type: "fixed", Coef: 0.001}, Correction: CorrectionConfig{Threshold: "2"}},
		Reward:    RewardConfig{Site: turnEnd, Aggregate: perTurn, Normalize: "none", Epsilon: 1e-8},
		Filter:    FilterConfig{Name: "reward_variance_top_p", Settings: map[string]any{}},
		Data:      DataConfig{Shuffle: true, Truncation: "error", Template: map[string]any{}, TrainFiles: []string{}, ValFiles: []string{}, TrainBatch: 1024, ValBatch: 256, MaxResponse: 512},
		Rollout:   RolloutConfig{MaxTurns: 5, Trajectories: 1, MultiTurnReward: true, LossMask: true, GAEMask: true, BaseURL: "http://localhost:5000", Timeout: 1200, MaxWorkers: 8},
		Agent: AgentConfig{
			Model: AgentModelConfig{LoRAAlpha: 16, Targets: []string{}},
			Actor: ActorConfig{
				BatchConfig: BatchConfig{MicroTokens: 16384}, Shuffle: true,
				Optim: optim(1e-6), MiniBatch: 256, Epochs: 1, GradClip: 1, NormLimit: 1000, Clip: 0.2,
				Loss: defaultPolicyLoss(), TauPos: loss.DefaultSAPO().TauPos, TauNeg: loss.DefaultSAPO().TauNeg,
				Aggregation: string(loss.TokenMean), Entropy: 0.001, KLLoss: 0.001, KLLossType: "low_var_kl",
			},
			Rollout: SamplingConfig{Name: "xla", Temperature: 1, TopP: 1, TopK: -1, ThinkOpen: "<think>", ThinkClose: "</think>", Val: ValConfig{Episodes: 1, Temperature: 1, TopP: 1, TopK: -1}},
		},
		Critic:    CriticConfig{Kind: "separate", MicroTokens: 32768, Optim: optim(1e-5), ValueClip: 0.5, ValueCoef: 1},
		Trainer:   TrainerConfig{Project: "vagen", Experiment: "run", Steps: 100, Epochs: 30, TestFreq: 20, ValBefore: true, MaxSkipped: 5, LoggingConfig: defaultLogging(), Metrics: []string{"all"}, Harness: "concat", CompactBudget: 4000, SavingConfig: defaultSaving()},
		Stability: defaultStability(),
		Hub:       HubConfig{Contents: []string{HubModel}},
	}
}

// Params are the estimator's hyperparameters.
func (c *Config) Params() advantage.Params {
	p := advantage.DefaultParams()
	a := &c.Algorithm
	p.Gamma, p.Lambda, p.TurnGamma, p.NormByStd = a.Gamma, a.Lambda, a.TurnGamma, a.NormByStd
	p.TurnLambda, p.TokenLambda, p.Mix = a.TurnLambda, a.TokenLambda, a.Mix
	p.StepWeight, p.Epsilon, p.Whiten = a.StepWeight, a.Epsilon, a.Whiten
	p.PassK = a.PassK
	return p
}
