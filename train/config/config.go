package config

import (
	"errors"

	"vagen/advantage"
	"vagen/policy"
	"vagen/policy/loss"
)

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("bad configuration")

// Config is the configuration of a training run. Keys have the names that VAGEN's
// users know; settings without a counterpart there are in the groups run, env and model.
type Config struct {
	// System is the generation of VAGEN that keys and names come from; "" is this
	// library. It selects defaults and estimators when a Source is loaded.
	System string `yaml:"system" null:"" doc:"generation of VAGEN that the keys come from: legacy (the full system), lite or next. It selects the defaults of that generation, the rules of environments, and what gae, grpo and bi_level_gae mean in algorithm.adv_estimator; null selects the defaults and names of this library. Defaults of logging, validation frequency and saving are always this library's"`

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
	SFT       SFTConfig       `yaml:"sft"`
	Trainer   TrainerConfig   `yaml:"trainer"`
	Stability StabilityConfig `yaml:"stability"`
	Hub       HubConfig       `yaml:"huggingface_hub"`

	Notes []Note `yaml:"-"` // on keys without effect and possible mistakes; informational only
}

// RunConfig has the settings of the run as a whole.
type RunConfig struct {
	Seed    uint64 `yaml:"seed" doc:"decides every random draw of the run"`
	Workers int    `yaml:"workers" doc:"environments stepped concurrently. 0 is 2 of those in this process, and as many as there are live episodes of those that services host (remote, remote_legacy). Changes no result"`
	Waves   int    `yaml:"waves" doc:"number of sub-batches that a step's episodes are split into, so that one generates while the environments of another step; changes results only through rounding"`

	Async bool `yaml:"async" doc:"collect the next step's episodes during a step's update, with the policy from before that update; needs memory for one more copy of its weights. algorithm.rollout_correction can correct for the difference"`

	EnvTimeout     float64 `yaml:"env_timeout" doc:"time limit of one call of an environment in seconds, retries of remote environments included; 0 is 600"`
	EpisodeTimeout float64 `yaml:"episode_timeout" doc:"time limit of all calls of an environment in an episode together, in seconds; 0 is no limit"`
	Patience       float64 `yaml:"patience" doc:"seconds after which a turn continues without the environments that have not answered; 0 waits for all. Only 0 makes runs reproducible bit by bit"`
	Retry          bool    `yaml:"retry" doc:"replay episodes whose environment failed or whose response cannot be used, some of them more than once"`
}

// EnvConfig names the environment to train on.
type EnvConfig struct {
	Name   string         `yaml:"name" null:"" doc:"environment, by its name in the registry"`
	Config map[string]any `yaml:"config" replaces:"state_reward: use_state_reward grounding_reward_weight worldmodeling_reward_weight; use_state_reward: state_reward" doc:"options of the environment. A mapping adds to that of a preset or an earlier file; null removes an option, and null for env.config removes all options; state_reward replaces a preset's use_state_reward and its weights, and null or false for it disables them"`
	// Defaults are kept only where the environment is not yet known.
	Defaults map[string]any `yaml:"defaults" doc:"options by environment, such as {sokoban: {render_mode: vision}}: env.config adds to those of env.name, and the config of an entry of data.train_files or data.val_files to those of its environment. Presets set the options that their experiments used"`
	Seed     int64          `yaml:"train_seed" doc:"first seed of the training levels"`
	ValSeed  int64          `yaml:"val_seed" doc:"first seed of the validation levels, which must not overlap the training levels"`
}

// ModelConfig sets how the model is executed.
type ModelConfig struct {
	Backend     string `yaml:"backend" doc:"auto, xla, cuda or go"`
	Devices     int    `yaml:"devices" doc:"devices of this machine that train, score and generate together: 1, 2, 4 or 8; 0 is all GPUs, or one on a CPU. Several devices give the same bytes as one with same_bytes"`
	SameBytes   bool   `yaml:"same_bytes" doc:"divide work on one device as on several, so that a run has the same bytes on 1, 2, 4 and 8 devices and can resume on another number of them; always on with several devices. On one device it needs more time and memory"`
	BFloat16    bool   `yaml:"bfloat16" doc:"compute activations in bfloat16"`
	Recompute   string `yaml:"recompute" doc:"what the backward pass recomputes to save memory: nothing, attention or blocks"`
	MicroTokens int    `yaml:"micro_tokens" doc:"tokens of a micro-batch; 0 is 4096"`
	CacheTokens int    `yaml:"cache_tokens" doc:"minimum length of a conversation's KV cache in tokens"`
}

// AlgorithmConfig sets the advantage estimator and the KL penalty.
type AlgorithmConfig struct {
	Estimator   string           `yaml:"adv_estimator" doc:"advantage estimator by name"`
	Gamma       float64          `yaml:"gamma" doc:"discount per token, in [0, 1]"`
	Lambda      float64          `yaml:"lam" doc:"GAE's lambda, in [0, 1]"`
	TurnGamma   float64          `yaml:"high_level_gamma" doc:"discount per turn of bi-level and turn-wise GAE, in [0, 1]"`
	TurnLambda  float64          `yaml:"lambda_turn" doc:"lambda from turn to turn of trajectory_bi_level_gae, in [0, 1]"`
	TokenLambda float64          `yaml:"lambda_token" doc:"lambda within a turn of trajectory_bi_level_gae, in [0, 1]"`
	Mix         float64          `yaml:"bi_level_mix" doc:"trajectory_bi_level_gae: 0 is token-level GAE, 1 is bi-level GAE; in [0, 1]"`
	StepWeight  float64          `yaml:"step_advantage_w" doc:"gigpo: weight of the comparison between turns from one state"`
	PassK       int              `yaml:"pass_k" doc:"grpo_passk: k of pass@k, the number of episodes whose maximum reward counts; 0 is the whole group"`
	Epsilon     float64          `yaml:"epsilon" doc:"added to the standard deviation of a group; 0 is 1e-6"`
	Whiten      bool             `yaml:"whiten" doc:"whiten advantages, for estimators that whiten"`
	NormByStd   bool             `yaml:"norm_adv_by_std_in_grpo" doc:"divide group-relative advantages by the group's standard deviation"`
	KLPenalty   string           `yaml:"kl_penalty" doc:"estimate of the KL in the reward: kl, abs, mse or low_var_kl"`
	KLInReward  bool             `yaml:"use_kl_in_reward" doc:"subtract a KL penalty to the reference policy from token rewards"`
	KLMask      string           `yaml:"kl_mask" doc:"tokens that get the penalty of use_kl_in_reward: response (those that the model wrote) or attention (all of a row, as in the full VAGEN system)"`
	KLCtrl      KLConfig         `yaml:"kl_ctrl"`
	Correction  CorrectionConfig `yaml:"rollout_correction"`
}

// KLConfig sets the controller of the KL penalty in the reward.
type KLConfig struct {
	Type    string  `yaml:"type" doc:"fixed or adaptive"`
	Coef    float64 `yaml:"kl_coef" doc:"coefficient; with type adaptive its initial value"`
	Target  float64 `yaml:"target_kl" doc:"target KL with type adaptive"`
	Horizon float64 `yaml:"horizon" doc:"with type adaptive: rows over which the largest error changes the coefficient by a fifth"`
}

// DataConfig sets where episodes come from, batch sizes and length limits.
type DataConfig struct {
	TrainFiles []string `yaml:"train_files" doc:"files of environments to train on, YAML or parquet as vagen dataset reads them, instead of env.name; their max_turns and lengths override those of this configuration"`
	ValFiles   []string `yaml:"val_files" doc:"files of environments to validate on"`
	Shuffle    bool     `yaml:"shuffle" doc:"shuffle the episodes of train_files in every epoch"`
	BaseSeed   int64    `yaml:"base_seed" doc:"offset of the seeds that lists of environments generate"`

	TrainBatch  int            `yaml:"train_batch_size" doc:"start states per step; each is played rollout_manager.n_trajectory times"`
	ValBatch    int            `yaml:"val_batch_size" null:"0" doc:"validation episodes; with val_files, which are always played completely, the episodes per batch; null is all"`
	MaxResponse int            `yaml:"max_response_length" unit:"tokens" doc:"maximum response length of a turn; with response_length_per_turn, the maximum length of everything after a conversation's initial prompt, observations included"`
	PerTurn     int            `yaml:"response_length_per_turn" null:"0" unit:"tokens" doc:"maximum response length of a turn when max_response_length limits whole conversations; null uses that of train_files if they have one"`
	Truncation  string         `yaml:"truncation" doc:"handling of an initial prompt longer than max_prompt_length: error drops the episode, right truncates the end of its observation, left the beginning"`
	Template    map[string]any `yaml:"apply_chat_template_kwargs" doc:"variables for the model's chat template, such as enable_thinking"`
	DropLong    bool           `yaml:"filter_overlong_prompts" doc:"before the first step, reset every environment of train_files and val_files once and drop those whose initial prompt is longer than max_prompt_length; otherwise their episodes fail when they are played. total_epochs counts steps before this filter"`
	MaxPrompt   int            `yaml:"max_prompt_length" doc:"maximum length of a conversation's initial prompt (instructions and first observation) in tokens; 0 is no limit"`
	GenBatch    int            `yaml:"gen_batch_size" null:"0" doc:"start states played in the first round of a step; further rounds replace those that cannot be used. 0 plays train_batch_size and replaces none"`
}

// RolloutConfig sets how episodes are played and rewarded.
type RolloutConfig struct {
	MaxTurns        int     `yaml:"max_turns" doc:"maximum turns of an episode"`
	Trajectories    int     `yaml:"n_trajectory" doc:"episodes per start state"`
	MultiTurnReward bool    `yaml:"use_multi_turn_reward" doc:"put each turn's reward on the turn's last token instead of the sum on the row's last token"`
	LossMask        bool    `yaml:"use_loss_mask" doc:"exclude tokens that the model did not write from the losses"`
	GAEMask         bool    `yaml:"use_gae_mask" doc:"exclude tokens that the model did not write from the recursion of masked_gae"`
	WindowSize      *int    `yaml:"window_size" doc:"with trainer.harness window: previous turns in the model's context besides the current one; 0 is the current turn only; null is no window (harness concat shows all turns)"`
	MaxTrajectory   int     `yaml:"max_trajectory_length" doc:"maximum length of a conversation in tokens; an episode without room for another response ends, or with harness compact is summarised. 0 uses the model's limit"`
	UseService      bool    `yaml:"use_service" doc:"run environments on a service at base_url, with the protocol of the full VAGEN system; env.name may then be any environment of the service"`
	BaseURL         string  `yaml:"base_url" doc:"address of the service for use_service; vagen serve starts one"`
	Timeout         float64 `yaml:"timeout" unit:"seconds" doc:"time limit of a request to the service"`
	MaxWorkers      int     `yaml:"max_workers" doc:"concurrent requests to the service, instead of run.workers"`

	MaxObservation int `yaml:"max_env_response_per_turn" doc:"maximum length of an observation after the first in tokens; the rest is cut off. 0 is no limit"`
}

// AgentConfig groups the settings of the policy.
type AgentConfig struct {
	Model   AgentModelConfig `yaml:"model"`
	Actor   ActorConfig      `yaml:"actor"`
	Rollout SamplingConfig   `yaml:"rollout"`
}

// AgentModelConfig names the policy's model and the parameters that are trained.
type AgentModelConfig struct {
	Path      string   `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout"`
	LoRARank  int      `yaml:"lora_rank" doc:"rank of LoRA adapters, which are trained instead of the weights; 0 trains the weights"`
	LoRAAlpha float64  `yaml:"lora_alpha" doc:"LoRA alpha; the adapters' scale is lora_alpha divided by lora_rank"`
	Targets   []string `yaml:"target_modules" doc:"linear layers with adapters, by the last parts of their names, such as q_proj; empty means all of the decoder"`
	Adapter   string   `yaml:"lora_adapter_path" null:"" doc:"folder of an adapter in PEFT layout to continue training, instead of a new one"`
}

// PathConfig names a model.
type PathConfig struct {
	Path string `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout; empty initialises a separate critic from the policy"`
}

// BatchConfig sets the size of micro-batches, the part of a mini-batch that goes
// through the network at once. It changes results only through rounding.
type BatchConfig struct {
	MicroRows   int  `yaml:"ppo_micro_batch_size_per_gpu" null:"0" unit:"rows" doc:"rows, or packed sequences of several short rows, per micro-batch; null is as many as model.micro_tokens allows"`
	Dynamic     bool `yaml:"use_dynamic_bsz" doc:"size micro-batches by ppo_max_token_len_per_gpu instead of by rows"`
	MicroTokens int  `yaml:"ppo_max_token_len_per_gpu" unit:"tokens" doc:"tokens per micro-batch with use_dynamic_bsz"`
}

// ActorConfig sets the policy's updates.
type ActorConfig struct {
	BatchConfig
	Shuffle     bool             `yaml:"shuffle" doc:"shuffle the episodes before they are split into mini-batches"`
	Optim       OptimConfig      `yaml:"optim"`
	MiniBatch   int              `yaml:"ppo_mini_batch_size" doc:"episodes per optimiser step"`
	Epochs      int              `yaml:"ppo_epochs" doc:"passes over a step's episodes"`
	GradClip    float64          `yaml:"grad_clip" doc:"maximum global norm of the gradient; larger gradients are scaled down"`
	NormLimit   float64          `yaml:"grad_norm_threshold" doc:"skip optimiser steps whose gradient norm is at least this; 0 disables it"`
	Clip        float64          `yaml:"clip_ratio" doc:"PPO's epsilon"`
	ClipLow     *float64         `yaml:"clip_ratio_low" doc:"epsilon of the lower bound; null uses clip_ratio"`
	ClipHigh    *float64         `yaml:"clip_ratio_high" doc:"epsilon of the upper bound; null uses clip_ratio"`
	ClipDual    float64          `yaml:"clip_ratio_c" doc:"bound of dual-clip PPO; 0 disables it"`
	Freeze      bool             `yaml:"freeze_vision_tower" doc:"do not train the vision tower and its merger, including those of a separate critic"`
	Loss        PolicyLossConfig `yaml:"policy_loss"`
	TauPos      float64          `yaml:"tau_pos" doc:"sapo: temperature of the gate for positive advantages; larger is sharper"`
	TauNeg      float64          `yaml:"tau_neg" doc:"sapo: temperature of the gate for other advantages; larger is sharper"`
	Aggregation string           `yaml:"loss_agg_mode" doc:"how tokens are averaged: token-mean, seq-mean-token-sum, seq-mean-token-mean, seq-mean-token-sum-norm; applies only to entropy and KL terms when the policy loss has a fixed mode"`
	ScaleFactor *float64         `yaml:"loss_scale_factor" doc:"divisor of seq-mean-token-sum-norm; null uses the maximum number of response tokens of an episode"`
	Entropy     float64          `yaml:"entropy_coeff" doc:"weight of the entropy bonus"`
	UseKLLoss   bool             `yaml:"use_kl_loss" doc:"add the KL to the reference policy to the loss"`
	KLLoss      float64          `yaml:"kl_loss_coef" doc:"weight of the KL loss"`
	KLLossType  string           `yaml:"kl_loss_type" doc:"kl, abs, mse or low_var_kl"`
}

// OptimConfig sets AdamW.
type OptimConfig struct {
	Rate        float64 `yaml:"lr" doc:"learning rate"`
	WarmupSteps int     `yaml:"lr_warmup_steps" unit:"steps" doc:"warm-up length in training steps; 0 or less uses lr_warmup_steps_ratio"`
	WarmupRatio float64 `yaml:"lr_warmup_steps_ratio" doc:"warm-up length as a fraction of the training steps"`
	Style       string  `yaml:"warmup_style" null:"constant" doc:"schedule after the warm-up: constant, cosine or linear"`
	MinRatio    float64 `yaml:"min_lr_ratio" null:"0" doc:"final learning rate of a decaying schedule as a fraction of lr"`
	Beta1       float64 `yaml:"beta1" doc:"decay of the first moment"`
	Beta2       float64 `yaml:"beta2" doc:"decay of the second moment"`
	Decay       float64 `yaml:"weight_decay" doc:"decoupled weight decay"`
}

// SamplingConfig sets how training responses are sampled; validation uses val_kwargs.
type SamplingConfig struct {
	Name        string       `yaml:"name" doc:"generation backend: xla, the trained model in this process; vllm or sglang, the servers in engine.addresses. Without servers vllm and sglang, and always hf, are accepted with a warning and mean xla"`
	Engine      EngineConfig `yaml:"engine"`
	MaxImages   int          `yaml:"limit_mm_per_prompt" null:"0" unit:"images" doc:"maximum images of a conversation; an episode that would exceed it ends. null is no limit"`
	Temperature float64      `yaml:"temperature" doc:"divides the logits"`
	TopP        float64      `yaml:"top_p" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int          `yaml:"top_k" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
	Thinking    int          `yaml:"thinking_token_budget" null:"0" unit:"tokens" doc:"maximum length of thinking between two tags; when it is reached the closing tag is inserted, in training and validation. Inserted tokens are not trained on. null is no limit"`
	ThinkOpen   string       `yaml:"thinking_open" null:"" doc:"tag that opens thinking; empty if the chat template writes it, so that responses start inside thinking"`
	ThinkClose  string       `yaml:"thinking_close" doc:"tag that closes thinking"`
	Val         ValConfig    `yaml:"val_kwargs"`
}

// ValConfig is SamplingConfig at validation.
type ValConfig struct {
	Episodes    int     `yaml:"n" unit:"episodes" doc:"episodes of each validation level"`
	Temperature float64 `yaml:"temperature" doc:"divides the logits; 0 is greedy"`
	TopP        float64 `yaml:"top_p" doc:"as in training"`
	TopK        int     `yaml:"top_k" doc:"as in training"`
}

// CriticConfig sets the critic.
type CriticConfig struct {
	Kind        string      `yaml:"kind" doc:"separate (its own model), shared (a head on the policy) or none"`
	Model       PathConfig  `yaml:"model"`
	Optim       OptimConfig `yaml:"optim"`
	MiniBatch   *int        `yaml:"ppo_mini_batch_size" doc:"episodes per optimiser step of a separate critic; null uses the actor's"`
	Epochs      *int        `yaml:"ppo_epochs" doc:"passes of a separate critic over a step's episodes; null uses the actor's"`
	Shuffle     *bool       `yaml:"shuffle" doc:"shuffle the episodes of a separate critic's mini-batches; null uses the actor's"`
	GradClip    *float64    `yaml:"grad_clip" doc:"maximum global norm of a separate critic's gradient; null uses the actor's"`
	NormLimit   *float64    `yaml:"grad_norm_threshold" doc:"skip optimiser steps of a separate critic whose gradient norm is at least this; 0 disables it, null uses the actor's"`
	MicroRows   int         `yaml:"ppo_micro_batch_size_per_gpu" null:"0" unit:"rows" doc:"as for the actor, for a separate critic; null uses the actor's"`
	Dynamic     *bool       `yaml:"use_dynamic_bsz" doc:"as for the actor, for a separate critic; null uses the actor's"`
	MicroTokens int         `yaml:"ppo_max_token_len_per_gpu" unit:"tokens" doc:"as for the actor, for a separate critic"`
	ValueClip   float64     `yaml:"cliprange_value" doc:"maximum change of a value from the old value (value clipping); 0 disables it"`
	ValueCoef   float64     `yaml:"value_coef" doc:"weight of the value loss"`
	OnTurnEnds  bool        `yaml:"use_reward_mask" doc:"train the critic on turn ends only; required by turn_wise_gae"`
	ZeroHead    bool        `yaml:"zero_head" doc:"initialise a new value head with zeros"`
}

// TrainerConfig sets the length of training, and what is validated, logged and saved.
type TrainerConfig struct {
	Stage        string   `yaml:"stage" doc:"rl, sft (supervised training only, as vagen sft does), or sft+rl: supervised training in the folder sft of the run, followed by reinforcement learning from its result"`
	Steps        int      `yaml:"total_training_steps" null:"-1" doc:"training steps; null, or unset with train_files, makes total_epochs passes over data.train_files"`
	Epochs       int      `yaml:"total_epochs" doc:"passes over data.train_files when total_training_steps is null"`
	Project      string   `yaml:"project_name" doc:"first part of the run folder's name"`
	Experiment   string   `yaml:"experiment_name" doc:"second part of the run folder's name"`
	TestFreq     int      `yaml:"test_freq" doc:"validate every test_freq steps; 0 or less disables it"`
	SaveFreq     int      `yaml:"save_freq" doc:"save a checkpoint every save_freq steps and at the end; 0 saves only at the end, -1 never"`
	ValBefore    bool     `yaml:"val_before_train" doc:"validate before the first step"`
	CriticWarmup int      `yaml:"critic_warmup" doc:"first steps in which only the critic is trained"`
	MaxSkipped   int      `yaml:"max_skipped_updates" doc:"stop after this many consecutive skipped optimiser steps"`
	GPUs         int      `yaml:"n_gpus_per_node" doc:"as model.devices where that is 0, if this machine has so many GPUs"`
	Metrics      []string `yaml:"metrics" doc:"diagnostics computed at every step, by name in package rollout/diagnose; [all] or [none]"`
	LoggingConfig

	Harness        string `yaml:"harness" doc:"how episodes become conversations, each of which is a training row: concat (one per episode), no_concat (one per turn), window (one per turn, with the previous turns), compact (when a conversation is full, a new one continues with a summary)"`
	CompactBudget  int    `yaml:"compact_budget" doc:"compact: length in tokens at which a conversation is summarised; 0 summarises when max_trajectory_length is reached"`
	CompactSummary int    `yaml:"compact_summary_budget" doc:"compact: maximum summary length in tokens; 0 uses a quarter of compact_budget, or the maximum response length if that is less"`

	SavingConfig
}

// Default returns the default configuration. Settings that the full VAGEN system has
// too have its defaults.
func Default() Config {
	adam := policy.DefaultOptimizer()
	own := loss.DefaultOptions()
	return Config{
		Run:       RunConfig{Waves: 1},
		Env:       EnvConfig{Seed: 1_000_000},
		Model:     ModelConfig{Backend: "auto", Recompute: "nothing"},
		Algorithm: defaultAlgorithm(),
		Reward:    RewardConfig{Site: turnEnd, Aggregate: perTurn, Normalize: "none", Epsilon: 1e-8},
		Filter:    FilterConfig{Name: "reward_variance_top_p", Settings: map[string]any{}},
		Data:      DataConfig{Shuffle: true, Truncation: "error", Template: map[string]any{}, TrainFiles: []string{}, ValFiles: []string{}, TrainBatch: 1024, ValBatch: 256, MaxResponse: 512},
		Rollout:   RolloutConfig{MaxTurns: 5, Trajectories: 1, MultiTurnReward: true, LossMask: true, GAEMask: true, BaseURL: "http://localhost:5000", Timeout: 1200, MaxWorkers: 8},
		Agent: AgentConfig{
			Model: AgentModelConfig{LoRAAlpha: 16, Targets: []string{}},
			Actor: ActorConfig{
				BatchConfig: BatchConfig{MicroTokens: 16384}, Shuffle: true,
				Optim: defaultOptim(adam.Rate), MiniBatch: 256, Epochs: 1, GradClip: adam.GradClip, NormLimit: adam.MaxGradNorm, Clip: own.ClipLow, ClipDual: own.DualClip,
				Loss: defaultPolicyLoss(), TauPos: own.TauPos, TauNeg: own.TauNeg,
				Aggregation: string(loss.TokenMean), Entropy: 0.001, KLLoss: 0.001, KLLossType: "low_var_kl",
			},
			Rollout: SamplingConfig{Name: "xla", Engine: defaultEngine(), Temperature: 1, TopP: 1, TopK: -1, ThinkOpen: "<think>", ThinkClose: "</think>", Val: ValConfig{Episodes: 1, Temperature: 1, TopP: 1, TopK: -1}},
		},
		Critic:    CriticConfig{Kind: "separate", MicroTokens: 32768, Optim: defaultOptim(adam.CriticRate), ValueClip: loss.DefaultValue().Clip, ValueCoef: 1},
		SFT:       defaultSFT(),
		Trainer:   TrainerConfig{Stage: StageRL, Project: "vagen", Experiment: "run", Steps: 100, Epochs: 30, TestFreq: 20, ValBefore: true, MaxSkipped: 5, LoggingConfig: defaultLogging(), Metrics: []string{"all"}, Harness: "concat", CompactBudget: 4000, SavingConfig: defaultSaving()},
		Stability: defaultStability(),
		Hub:       HubConfig{Contents: []string{HubModel}},
	}
}

// defaultOptim is AdamW with a constant learning rate.
func defaultOptim(rate float64) OptimConfig {
	adam := policy.DefaultOptimizer()
	return OptimConfig{Rate: rate, WarmupSteps: -1, Style: "constant", Beta1: adam.Beta1, Beta2: adam.Beta2, Decay: adam.WeightDecay}
}

// defaultAlgorithm has the defaults of package advantage.
func defaultAlgorithm() AlgorithmConfig {
	p := advantage.DefaultParams()
	return AlgorithmConfig{
		Estimator: "gae", Gamma: p.Gamma, Lambda: p.Lambda, TurnGamma: p.TurnGamma, TurnLambda: p.TurnLambda, TokenLambda: p.TokenLambda, Mix: p.Mix,
		StepWeight: p.StepWeight, PassK: p.PassK, Epsilon: p.Epsilon, Whiten: p.Whiten, NormByStd: p.NormByStd,
		KLPenalty: "kl", KLMask: KLResponse, KLCtrl: KLConfig{Type: "fixed", Coef: 0.001}, Correction: CorrectionConfig{Threshold: "2"},
	}
}

// Params are the estimator's hyperparameters.
func (c *Config) Params() advantage.Params {
	a := &c.Algorithm
	return advantage.Params{
		Gamma: a.Gamma, Lambda: a.Lambda, TurnGamma: a.TurnGamma, TurnLambda: a.TurnLambda, TokenLambda: a.TokenLambda, Mix: a.Mix,
		StepWeight: a.StepWeight, PassK: a.PassK, Epsilon: a.Epsilon, Whiten: a.Whiten, NormByStd: a.NormByStd,
	}
}
