package config

import (
	"errors"

	"vagen/advantage"
	"vagen/internal/settings"
	"vagen/policy"
	"vagen/policy/loss"
)

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("bad configuration")

// Config is the configuration of a training run. Keys have the names that VAGEN's
// users know; settings without a counterpart there are in the groups run, env and model.
//
// Every fact about a setting is a tag of its field, or of a struct around it, and the inner tag counts: default is
// its value in Default, unless that follows from another package; null is the value that null stands for; range,
// must, count and oneof are its checks, see
// settings.Check; owner says who honours it: trainer (a train.Trainer itself), checkpoint,
// learner or run, see train.OuterKeys; resume:"free" lets it differ when a run resumes, because it
// changes no result, and resume:"devices" if work is divided as for several devices; idle and noted
// are sentences about other settings with which it has no effect, see settings.Idle.
type Config struct {
	// System is the generation of VAGEN that keys and names come from; "" is this library. It selects
	// defaults and estimators where a file or an override is read, and has no effect on the run, which
	// resumes also with the configuration that vagen config import writes.
	System string `yaml:"system" owner:"trainer" null:"" resume:"free" doc:"generation of VAGEN that the keys come from: legacy (the full system), lite or next. It selects the defaults of that generation, the rules of environments, and what gae, grpo and bi_level_gae mean in algorithm.adv_estimator; null selects the defaults and names of this library. Defaults of logging, validation frequency and saving are always this library's"`

	Run       RunConfig       `yaml:"run"`
	Env       EnvConfig       `yaml:"env" owner:"trainer"`
	Model     ModelConfig     `yaml:"model" owner:"learner"`
	Algorithm AlgorithmConfig `yaml:"algorithm" owner:"trainer"`
	Reward    RewardConfig    `yaml:"reward" owner:"trainer"`
	Filter    FilterConfig    `yaml:"filter" owner:"trainer"`
	Data      DataConfig      `yaml:"data" owner:"trainer"`
	Rollout   RolloutConfig   `yaml:"rollout_manager"`
	Agent     AgentConfig     `yaml:"actor_rollout_ref"`
	Critic    CriticConfig    `yaml:"critic" noted:"critic.kind is none"`
	SFT       SFTConfig       `yaml:"sft" owner:"trainer" noted:"trainer.stage is rl"`
	Trainer   TrainerConfig   `yaml:"trainer"`
	Stability StabilityConfig `yaml:"stability" owner:"trainer"`
	Hub       HubConfig       `yaml:"huggingface_hub" owner:"run" resume:"free"`

	Notes []Note `yaml:"-"` // on keys without effect and possible mistakes; informational only
}

// MaxStaleness is the largest value of run.max_staleness: every step that is collected ahead
// needs a copy of the weights. The tag of the setting has it, too.
const MaxStaleness = 8

// RunConfig has the settings of the run as a whole.
type RunConfig struct {
	Seed    uint64 `yaml:"seed" owner:"trainer" doc:"decides every random draw of the run"`
	Workers int    `yaml:"workers" owner:"trainer" count:"0" resume:"free" noted:"rollout_manager.use_service is true, the number of requests at a time is rollout_manager.max_workers; run.queue is not null, the number of episodes at a time is that of vagen worker --workers" doc:"environments stepped concurrently. 0 is 2 of those in this process, and as many as there are live episodes of those that services host (remote, remote_legacy, openenv). Changes no result"`
	Waves   int    `yaml:"waves" default:"1" owner:"trainer" count:"positive" doc:"number of sub-batches that a step's episodes are split into, so that one generates while the environments of another step; changes results only through rounding"`

	Async bool `yaml:"async" owner:"trainer" doc:"collect the next step's episodes during a step's update, with the policy from before that update; needs memory for one more copy of its weights. algorithm.rollout_correction can correct for the difference"`
	// MaxStaleness is the number of steps whose episodes are collected ahead with Async.
	MaxStaleness int `yaml:"max_staleness" default:"1" owner:"trainer" range:"1,8" doc:"with async: number of steps whose episodes are collected at the same time during updates, and so the number of updates between the policy that plays a step's episodes and the one that learns from them, 1 to 8. It hides episodes that take longer than an update. Each needs memory for a copy of the weights, and steps run.workers environments at a time. With actor_rollout_ref.rollout.engine.addresses more than 1 needs run.partial_rollouts"`
	// Partial lets episodes continue with new weights.
	Partial bool `yaml:"partial_rollouts" owner:"trainer" doc:"with async and actor_rollout_ref.rollout.engine.addresses: bring new weights to the servers while episodes of later steps are played, which continue with them. A response is written by one version of the weights, an episode by up to max_staleness + 1. It must not be combined with run.queue"`

	Queue        string      `yaml:"queue" null:"" owner:"run" resume:"free" doc:"play the episodes of training and validation in worker processes (vagen worker), on this machine or others: the URL of a NATS server with JetStream, such as nats://host:4222 or tls://host:4222, or embedded for a server in this process. The responses must be generated by servers (actor_rollout_ref.rollout.engine.addresses). null plays them in this process. Changes no result if the responses do not depend on which process asks for them"`
	QueueOptions QueueConfig `yaml:"queue_options" owner:"run" resume:"free" idle:"run.queue is null"`

	EnvTimeout     float64 `yaml:"env_timeout" owner:"trainer" range:"0,1e+06" doc:"time limit of one call of an environment in seconds, retries of remote environments included; 0 is 600"`
	EpisodeTimeout float64 `yaml:"episode_timeout" owner:"trainer" range:"0,1e+06" doc:"time limit of all calls of an environment in an episode together, in seconds; 0 is no limit"`
	Patience       float64 `yaml:"patience" owner:"trainer" range:"0,1e+06" doc:"seconds after which a turn continues without the environments that have not answered; 0 waits for all. Only 0 makes runs reproducible bit by bit"`
	Continuous     bool    `yaml:"continuous" owner:"trainer" doc:"play every episode by itself: it continues as soon as its environment has answered, and its responses join and leave the batch that is being written, instead of turns in rounds that wait for the slowest. Which responses share a batch depends on time, so that runs repeat up to rounding only. The model in this process needs one device for it"`
	Retry          bool    `yaml:"retry" owner:"trainer" doc:"replay episodes whose environment failed or whose response cannot be used, some of them more than once"`
}

// EnvConfig names the environment to train on.
type EnvConfig struct {
	Name   string         `yaml:"name" null:"" doc:"environment, by its name in the registry"`
	Config map[string]any `yaml:"config" replaces:"state_reward: use_state_reward grounding_reward_weight worldmodeling_reward_weight; use_state_reward: state_reward" doc:"options of the environment. A mapping adds to that of a preset or an earlier file; null removes an option, and null for env.config removes all options; state_reward replaces a preset's use_state_reward and its weights, and null or false for it disables them"`
	// Defaults are kept only where the environment is not yet known.
	Defaults map[string]any `yaml:"defaults" doc:"options by environment, such as {sokoban: {render_mode: vision}}: env.config adds to those of env.name, and the config of an entry of data.train_files or data.val_files to those of its environment. Presets set the options that their experiments used"`
	Seed     int64          `yaml:"train_seed" default:"1000000" noted:"data.train_files is not empty, which gives the start states" range:"-2305843009213693952,2305843009213693952" must:"be in [-2^61, 2^61]" doc:"first seed of the training levels"`
	ValSeed  int64          `yaml:"val_seed" noted:"data.val_files is not empty, which gives the start states" range:"-2305843009213693952,2305843009213693952" must:"be in [-2^61, 2^61]" doc:"first seed of the validation levels, which must not overlap the training levels"`
}

// ModelConfig sets how the model is executed.
type ModelConfig struct {
	Backend      string `yaml:"backend" default:"auto" oneof:"auto xla cuda go" doc:"auto (XLA on the CPU, or go where that is not available), xla, cuda (GPUs) or go"`
	Devices      int    `yaml:"devices" resume:"devices" doc:"devices of this machine that train, score and generate together: 1, 2, 4 or 8; 0 is all GPUs, or one on a CPU. Several devices give the same bytes as one with same_bytes"`
	SameBytes    bool   `yaml:"same_bytes" resume:"devices" doc:"divide work on one device as on several, so that a run has the same bytes on 1, 2, 4 and 8 devices and can resume on another number of them; always on with several devices. On one device it needs more time and memory"`
	Nodes        int    `yaml:"num_nodes" default:"1" resume:"devices" doc:"processes, the ranks of MPI, on one host or several, that train one model together: 1, 2, 4 or 8, times model.devices at most 8, and the number that mpirun or srun starts. All have the same command; rank 0 plays the episodes, writes the folder of the run and trains, the others take part in scoring and updates. A run has the same bytes as one process with same_bytes"`
	NodeTimeout  int    `yaml:"node_timeout" default:"600" noted:"model.num_nodes is 1" range:"1,1e18" must:"be at least 1" resume:"free" doc:"seconds until all ranks must be connected, and in which each rank must make progress while another one waits for it. A rank of which nothing is heard for a minute, or this time if it is shorter, is lost"`
	PerDevice    bool   `yaml:"part_per_device" doc:"with several devices, divide work into one part for each device instead of always eight: larger batches and fewer sums of gradients, so less time and memory, but bytes that depend on the number of devices"`
	Shard        bool   `yaml:"shard_weights" noted:"model.devices is 1" resume:"free" doc:"keep each weight on one of several devices instead of on all of them; a layer's weights are copied to the others while they compute with it, and the decoder's while episodes are played. It saves a GPU most of the 4 bytes for each weight during updates, costs time for copying, and changes no result"`
	BFloat16     bool   `yaml:"bfloat16" doc:"compute activations in bfloat16"`
	RolloutDType string `yaml:"rollout_dtype" default:"float32" oneof:"float32 bfloat16 int8" doc:"type of the decoder's weights when responses are written, on a CPU: bfloat16 and int8 (with a scale for each row of a matrix, and activations in 8 bits, too) are faster, because a token takes about as long as reading them, and need memory for copies. Log-probs of responses are those of the rounded weights, those of training of float32: set algorithm.rollout_correction.rollout_is. Validation writes with the same weights"`
	Autotune     string `yaml:"autotune" doc:"file with XLA's choice of a kernel for each matrix product on a GPU. If it does not exist, products are measured and the file is written at the end; that run cannot be repeated byte for byte, later runs with the file can. Needs backend cuda"`
	AutotuneSum  string `yaml:"autotune_sha256" doc:"SHA-256 that the file of model.autotune must have; a run sets it to that of the file it begins with, so that it resumes with the same one"`
	Recompute    string `yaml:"recompute" default:"nothing" oneof:"nothing attention blocks" doc:"what the backward pass recomputes to save memory: nothing, attention or blocks"`
	MicroTokens  int    `yaml:"micro_tokens" count:"0" doc:"tokens of a micro-batch; 0 is 4096"`
	CacheTokens  int    `yaml:"cache_tokens" count:"0" noted:"actor_rollout_ref.rollout.engine.addresses is not empty, so that servers generate" doc:"minimum length of a conversation's KV cache in tokens"`
	CompileCache string `yaml:"compile_cache" default:"auto" noted:"model.backend is go" resume:"free" doc:"where executables compiled by XLA are kept, so that later processes load instead of compile them, with the same bytes as results: a folder, on (vagen/executables in the user's cache folder), off, or auto (the environment variable VAGEN_COMPILE_CACHE if it is set, else on for the CPU and off for cuda)"`
	PerCall      int    `yaml:"tokens_per_call" noted:"actor_rollout_ref.rollout.engine.addresses is not empty, so that servers generate" doc:"tokens that one program generates of each conversation: 1, 2, 4 or 8; 0 is 8 on GPUs and 1 on CPUs. With more, the host and the launch of programs cost less per token; on a CPU the tokens and log-probs are the same bit for bit, on a GPU they may be rounded otherwise"`
	SharePrefix  bool   `yaml:"share_prefix" doc:"read the tokens with which all conversations of a new batch begin, such as a system prompt, once and copy their keys, values and states; not with run.continuous, which opens conversations one by one. Scoring and training read the prompt before the first response of rows, such as those of a group, once for all of them in a part of a micro-batch, which is up to four times as long as the longest row if model.micro_tokens allows; layers that keep a state do not. It saves most of the work of long prompts. Last bits may differ from those without it; runs with it repeat byte for byte"`
	DraftTokens  int    `yaml:"draft_tokens" range:"0,3" resume:"free" noted:"actor_rollout_ref.rollout.engine.addresses is not empty, so that servers generate" doc:"tokens that are guessed after the next one and computed in the same pass, on a CPU: those that followed the last tokens before, in the conversation or in other responses. Results have the same bytes, and perf/tokens_per_pass says what is gained. Only one conversation that decodes alone has so many, and two that decode together have one: larger batches are bound by arithmetic and decode without, as those of training do until few conversations are left. It needs kernels, model.bfloat16 off, and no adapters, unless model.rollout_dtype merges them"`
}

// AlgorithmConfig sets the advantage estimator and the KL penalty.
type AlgorithmConfig struct {
	Estimator        string `yaml:"adv_estimator" default:"gae" doc:"advantage estimator by name"`
	advantage.Params `yaml:",inline"`

	RewardKeys    []string  `yaml:"gdpo_reward_keys" default:"[]" doc:"gdpo, gdpo_trl: parts of the reward that are normalised each on its own, by name, such as success and format; without any the whole reward is the only part"`
	RewardWeights []float64 `yaml:"gdpo_reward_weights" default:"[]" doc:"weights of gdpo_reward_keys; without any all are 1"`

	Echo    EchoConfig    `yaml:"echo"`
	Distill DistillConfig `yaml:"distillation"`

	SelfDistill SelfDistillConfig `yaml:"self_distillation"`

	KLPenalty  string           `yaml:"kl_penalty" default:"kl" idle:"algorithm.use_kl_in_reward is false" doc:"estimate of the KL in the reward: kl, abs, mse, low_var_kl or k3_unclamped"`
	KLInReward bool             `yaml:"use_kl_in_reward" doc:"subtract a KL penalty to the reference policy from token rewards"`
	KLMask     string           `yaml:"kl_mask" default:"response" oneof:"response attention" idle:"algorithm.use_kl_in_reward is false" doc:"tokens that get the penalty of use_kl_in_reward: response (those that the model wrote) or attention (all of a row, as in the full VAGEN system)"`
	KLCtrl     KLConfig         `yaml:"kl_ctrl"`
	Correction CorrectionConfig `yaml:"rollout_correction"`
}

// EchoConfig sets the prediction of observations.
type EchoConfig struct {
	Alpha float64 `yaml:"alpha" range:"0,1e+12" doc:"weight of the mean negative log-prob of what the environment wrote after the first response of a row, beside the policy loss: the policy learns to predict its observations; prime-rl's roles.tool.alpha has 0.1. 0 is off"`
}

// DistillConfig sets what is learned from a teacher, which is the reference policy of another folder.
type DistillConfig struct {
	Coef     float64 `yaml:"kl_penalty_coef" range:"0,1e+12" doc:"weight of the reverse KL to the teacher in actor_rollout_ref.ref.model.path, which is subtracted from the advantage of each token; the tinker cookbook has 1. 0 is off"`
	Discount float64 `yaml:"kl_discount_factor" range:"0,1" idle:"algorithm.distillation.kl_penalty_coef is 0" doc:"above 0 a token also gets the KL of the later tokens of its row, with this discount per token"`
	Task     bool    `yaml:"use_task_rewards" default:"true" doc:"false leaves out the estimator's advantages, so that only the teacher is learned from"`
}

// KLConfig sets the controller of the KL penalty in the reward.
type KLConfig struct {
	Type    string  `yaml:"type" default:"fixed" idle:"algorithm.use_kl_in_reward is false" doc:"fixed or adaptive"`
	Coef    float64 `yaml:"kl_coef" default:"0.001" range:"0,1e+12" doc:"coefficient; with type adaptive its initial value"`
	Target  float64 `yaml:"target_kl" noted:"algorithm.kl_ctrl.type is fixed" doc:"target KL with type adaptive"`
	Horizon float64 `yaml:"horizon" noted:"algorithm.kl_ctrl.type is fixed" doc:"with type adaptive: rows over which the largest error changes the coefficient by a fifth"`
}

// DataConfig sets where episodes come from, batch sizes and length limits.
type DataConfig struct {
	TrainFiles []string `yaml:"train_files" default:"[]" doc:"files of environments to train on, YAML or parquet as vagen dataset reads them, instead of env.name; their max_turns and lengths override those of this configuration"`
	ValFiles   []string `yaml:"val_files" default:"[]" doc:"files of environments to validate on"`
	Shuffle    bool     `yaml:"shuffle" default:"true" noted:"data.train_files is empty" doc:"shuffle the episodes of train_files in every epoch"`
	BaseSeed   int64    `yaml:"base_seed" doc:"offset of the seeds that lists of environments generate"`

	TrainBatch  int            `yaml:"train_batch_size" default:"1024" count:"positive" doc:"start states per step; each is played rollout_manager.n_trajectory times"`
	ValBatch    int            `yaml:"val_batch_size" default:"256" null:"0" count:"0" doc:"validation episodes; with val_files, which are always played completely, the episodes per batch; null is all"`
	MaxResponse int            `yaml:"max_response_length" default:"512" count:"positive" unit:"tokens" doc:"maximum response length of a turn; with response_length_per_turn, the maximum length of everything after a conversation's initial prompt, observations included"`
	PerTurn     int            `yaml:"response_length_per_turn" null:"0" count:"0" unit:"tokens" doc:"maximum response length of a turn when max_response_length limits whole conversations; null uses that of train_files if they have one"`
	Truncation  string         `yaml:"truncation" default:"error" noted:"data.max_prompt_length is 0" oneof:"error left right" doc:"handling of an initial prompt longer than max_prompt_length: error drops the episode, right truncates the end of its observation, left the beginning"`
	Template    map[string]any `yaml:"apply_chat_template_kwargs" default:"{}" owner:"learner" doc:"variables for the model's chat template, such as enable_thinking; strftime_now is the time that it is told, such as 2026-01-31; one that the template does not read is refused unless it is false"`
	DropLong    bool           `yaml:"filter_overlong_prompts" doc:"before the first step, reset every environment of train_files and val_files once and drop those whose initial prompt is longer than max_prompt_length; otherwise their episodes fail when they are played. An environment that cannot be reset ends the run. total_epochs counts steps before this filter"`
	MaxPrompt   int            `yaml:"max_prompt_length" count:"0" doc:"maximum length of a conversation's initial prompt (instructions and first observation) in tokens; 0 is no limit"`
	Pools       PoolsConfig    `yaml:"pools"`
	GenBatch    int            `yaml:"gen_batch_size" null:"0" count:"0" doc:"start states played in the first round of a step; further rounds replace those that cannot be used. 0 plays train_batch_size and replaces none"`
}

// RolloutConfig sets how episodes are played and rewarded.
type RolloutConfig struct {
	MaxTurns        int     `yaml:"max_turns" default:"5" owner:"trainer" count:"positive" doc:"maximum turns of an episode"`
	Trajectories    int     `yaml:"n_trajectory" default:"1" owner:"trainer" count:"positive" doc:"episodes per start state"`
	MultiTurnReward bool    `yaml:"use_multi_turn_reward" default:"true" owner:"trainer" doc:"put each turn's reward on the turn's last token instead of the sum on the row's last token"`
	LossMask        bool    `yaml:"use_loss_mask" default:"true" owner:"trainer" doc:"exclude tokens that the model did not write from the losses"`
	GAEMask         bool    `yaml:"use_gae_mask" default:"true" owner:"trainer" doc:"masked_gae needs it: its recursion leaves out the tokens that the model did not write. Other estimators do not read it"`
	WindowSize      *int    `yaml:"window_size" owner:"trainer" count:"0" idle:"trainer.harness is no_concat|compact, only window reads it" doc:"with trainer.harness window: previous turns in the model's context besides the current one; 0 is the current turn only; null is no window (harness concat shows all turns)"`
	MaxTrajectory   int     `yaml:"max_trajectory_length" owner:"trainer" count:"0" doc:"maximum length of a conversation in tokens, its initial prompt included, and so needs data.max_prompt_length; an episode without room for another response ends, or with harness compact is summarised. 0 uses the model's limit"`
	UseService      bool    `yaml:"use_service" owner:"run" doc:"run environments on a service at base_url, with the protocol of the full VAGEN system; env.name may then be any environment of the service"`
	BaseURL         string  `yaml:"base_url" default:"http://localhost:5000" owner:"run" noted:"rollout_manager.use_service is false" doc:"address of the service for use_service; vagen serve starts one"`
	Timeout         float64 `yaml:"timeout" default:"1200" range:">0,1e6" must:"be above 0 and at most 1e6" owner:"run" noted:"rollout_manager.use_service is false" unit:"seconds" doc:"time limit of a request to the service"`
	MaxWorkers      int     `yaml:"max_workers" default:"8" owner:"trainer" count:"positive" noted:"rollout_manager.use_service is false; run.queue is not null, the number of episodes at a time is that of vagen worker --workers" doc:"concurrent requests to the service, instead of run.workers"`

	MaxObservation int `yaml:"max_env_response_per_turn" owner:"trainer" count:"0" doc:"maximum length of an observation after the first in tokens; the rest is cut off. 0 is no limit"`
}

// AgentConfig groups the settings of the policy.
type AgentConfig struct {
	Model   AgentModelConfig `yaml:"model" owner:"learner"`
	Actor   ActorConfig      `yaml:"actor"`
	Rollout SamplingConfig   `yaml:"rollout"`
	Ref     ReferenceConfig  `yaml:"ref" owner:"learner" resume:"free"`
}

// AgentModelConfig names the policy's model and the parameters that are trained.
type AgentModelConfig struct {
	Path      string   `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout"`
	LoRARank  int      `yaml:"lora_rank" doc:"rank of LoRA adapters, which are trained instead of the weights; 0 trains the weights"`
	LoRAAlpha float64  `yaml:"lora_alpha" default:"16" noted:"actor_rollout_ref.model.lora_rank is 0" doc:"LoRA alpha; the adapters' scale is lora_alpha divided by lora_rank"`
	Targets   []string `yaml:"target_modules" default:"[]" noted:"actor_rollout_ref.model.lora_rank is 0" doc:"linear layers with adapters, by the last parts of their names, such as q_proj; empty means all of the decoder"`
	Adapter   string   `yaml:"lora_adapter_path" null:"" doc:"folder of an adapter in PEFT layout to continue training, instead of a new one"`
}

// CriticModelConfig names the model of a separate critic.
type CriticModelConfig struct {
	Path string             `yaml:"path" null:"" doc:"folder of the model in the Hugging Face layout; empty initialises a separate critic from the policy"`
	FSDP CriticMemoryConfig `yaml:"fsdp_config" resume:"free" noted:"critic.kind is none; critic.kind is shared, so that it has no weights and no optimiser of its own"`
}

// CriticMemoryConfig says what of a separate critic is in host memory while it is not used.
type CriticMemoryConfig struct {
	MomentsConfig `yaml:",inline"`
	ParamOffload  bool `yaml:"param_offload" doc:"keep the weights of a separate critic in host memory and copy them to the devices whenever it scores or is updated. It saves a GPU 4 bytes for each weight while episodes are played and the policy is updated, and changes no result"`
}

// BatchConfig sets the size of micro-batches, the part of a mini-batch that goes
// through the network at once. It changes results only through rounding.
type BatchConfig struct {
	MicroRows   int  `yaml:"ppo_micro_batch_size_per_gpu" null:"0" count:"0" noted:"actor_rollout_ref.actor.use_dynamic_bsz is true" unit:"rows" doc:"rows, or packed sequences of several short rows, per micro-batch; null is as many as model.micro_tokens allows"`
	Dynamic     bool `yaml:"use_dynamic_bsz" doc:"size micro-batches by ppo_max_token_len_per_gpu instead of by rows"`
	MicroTokens int  `yaml:"ppo_max_token_len_per_gpu" default:"16384" count:"positive" noted:"actor_rollout_ref.actor.use_dynamic_bsz is false" unit:"tokens" doc:"tokens per micro-batch with use_dynamic_bsz"`
}

// ActorConfig sets the policy's updates.
type ActorConfig struct {
	BatchConfig `owner:"learner"`
	Shuffle     bool             `yaml:"shuffle" default:"true" owner:"trainer" doc:"shuffle the episodes before they are split into mini-batches"`
	Optim       OptimConfig      `yaml:"optim" owner:"trainer"`
	MiniBatch   int              `yaml:"ppo_mini_batch_size" default:"256" owner:"trainer" count:"positive" doc:"episodes per optimiser step"`
	Epochs      int              `yaml:"ppo_epochs" default:"1" owner:"trainer" count:"positive" doc:"passes over a step's episodes"`
	GradClip    float64          `yaml:"grad_clip" owner:"trainer" range:"0,1e+12" doc:"maximum global norm of the gradient; larger gradients are scaled down"`
	NormLimit   float64          `yaml:"grad_norm_threshold" owner:"trainer" range:"0,1e+12" doc:"skip optimiser steps whose gradient norm is at least this; 0 disables it"`
	Clip        float64          `yaml:"clip_ratio" owner:"trainer" range:"0,1" doc:"PPO's epsilon"`
	ClipLow     *float64         `yaml:"clip_ratio_low" owner:"trainer" range:"0,1" doc:"epsilon of the lower bound; null uses clip_ratio"`
	ClipHigh    *float64         `yaml:"clip_ratio_high" owner:"trainer" range:"0,1e+12" doc:"epsilon of the upper bound; null uses clip_ratio"`
	ClipDual    float64          `yaml:"clip_ratio_c" owner:"trainer" range:"0,1e+12" doc:"largest factor on a negative advantage (dual-clip PPO), and with dppo_tv and dppo_kl on any advantage; 0 disables it; verl has 3"`
	Freeze      bool             `yaml:"freeze_vision_tower" owner:"learner" doc:"do not train the vision tower and its merger, including those of a separate critic"`
	Loss        PolicyLossConfig `yaml:"policy_loss" owner:"trainer"`
	TauPos      float64          `yaml:"tau_pos" owner:"trainer" doc:"sapo: temperature of the gate for positive advantages; larger is sharper"`
	TauNeg      float64          `yaml:"tau_neg" owner:"trainer" doc:"sapo: temperature of the gate for other advantages; larger is sharper"`
	Aggregation string           `yaml:"loss_agg_mode" default:"token-mean" owner:"trainer" oneof:"token-mean token-sum seq-mean-token-sum seq-mean-token-mean prompt-mean seq-mean-token-sum-norm" doc:"how tokens are averaged: token-mean, token-sum (not divided), seq-mean-token-sum, seq-mean-token-mean, prompt-mean (over start states), seq-mean-token-sum-norm; applies only to entropy and KL terms when the policy loss has a fixed mode"`
	ScaleFactor *float64         `yaml:"loss_scale_factor" owner:"trainer" idle:".loss_agg_mode is not seq-mean-token-sum-norm" range:">0,1e+12" must:"be above 0" doc:"divisor of seq-mean-token-sum-norm; null uses the maximum number of response tokens of an episode; verl 0.9.1 divides by the number of rows, too"`
	Entropy     float64          `yaml:"entropy_coeff" default:"0.001" owner:"trainer" range:"-1e+12,1e+12" doc:"weight of the entropy bonus"`
	UseKLLoss   bool             `yaml:"use_kl_loss" owner:"trainer" doc:"add the KL to the reference policy to the loss"`
	KLLoss      float64          `yaml:"kl_loss_coef" default:"0.001" owner:"trainer" range:"0,1e+12" doc:"weight of the KL loss"`
	KLLossType  string           `yaml:"kl_loss_type" default:"low_var_kl" owner:"trainer" doc:"kl, abs, mse, low_var_kl or k3_unclamped"`
	FSDP        MomentsConfig    `yaml:"fsdp_config" owner:"learner" resume:"free"`
}

// MomentsConfig says where the optimiser's moments are between updates.
type MomentsConfig struct {
	OptimizerOffload bool `yaml:"optimizer_offload" doc:"keep the optimiser's moments in host memory; those of a layer are on a device while it is updated. It saves a GPU 8 bytes for each trained weight and changes no result"`
}

// ReferenceConfig sets the reference policy.
type ReferenceConfig struct {
	Model struct {
		Path string `yaml:"path" null:"" resume:"" doc:"folder of another model as the reference policy: a teacher. It has the tokenizer and the family of the policy; empty is the policy before training"`
	} `yaml:"model"`
	Engine RefEngineConfig `yaml:"engine" idle:"actor_rollout_ref.ref.engine.addresses is empty"`
	FSDP   struct {
		ParamOffload bool `yaml:"param_offload" doc:"keep the weights of the reference policy in host memory and copy them to the devices whenever it scores. It saves a GPU 4 bytes for each weight while episodes are played and the policy is updated, and changes no result"`
	} `yaml:"fsdp_config"`
}

// OptimConfig sets AdamW.
type OptimConfig struct {
	Rate        float64 `yaml:"lr" range:"0,10" doc:"learning rate"`
	WarmupSteps int     `yaml:"lr_warmup_steps" default:"-1" unit:"steps" doc:"warm-up length in training steps; 0 or less uses lr_warmup_steps_ratio"`
	WarmupRatio float64 `yaml:"lr_warmup_steps_ratio" range:"0,1" doc:"warm-up length as a fraction of the training steps"`
	Style       string  `yaml:"warmup_style" default:"constant" null:"constant" oneof:"constant cosine linear" doc:"schedule after the warm-up: constant, cosine or linear"`
	MinRatio    float64 `yaml:"min_lr_ratio" null:"0" range:"0,1" idle:".warmup_style is constant" doc:"final learning rate of a decaying schedule as a fraction of lr"`
	Beta1       float64 `yaml:"beta1" range:"0,0.9999999" doc:"decay of the first moment"`
	Beta2       float64 `yaml:"beta2" range:"0,0.9999999" doc:"decay of the second moment"`
	Decay       float64 `yaml:"weight_decay" range:"0,10" doc:"decoupled weight decay"`
}

// SamplingConfig sets how training responses are sampled; validation uses val_kwargs.
type SamplingConfig struct {
	Name        string       `yaml:"name" default:"xla" owner:"trainer" oneof:"xla vllm sglang hf" doc:"generation backend: xla, the trained model in this process; vllm or sglang, the servers in engine.addresses. Without servers vllm and sglang, and always hf, are accepted with a warning and mean xla"`
	Engine      EngineConfig `yaml:"engine" owner:"learner" idle:"actor_rollout_ref.rollout.engine.addresses is empty"`
	MaxImages   int          `yaml:"limit_mm_per_prompt" owner:"trainer" null:"0" count:"0" unit:"images" doc:"maximum images of a conversation; an episode that would exceed it ends. null is no limit"`
	Temperature float64      `yaml:"temperature" default:"1" owner:"trainer" range:"1e-09,1e+06" must:"be in [1e-9, 1e6] in training" doc:"divides the logits"`
	TopP        float64      `yaml:"top_p" default:"1" owner:"trainer" range:"0,1" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int          `yaml:"top_k" default:"-1" owner:"trainer" range:"-1,1e18" must:"be -1 or more" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
	Thinking    int          `yaml:"thinking_token_budget" owner:"trainer" null:"0" unit:"tokens" doc:"maximum length of thinking between two tags; when it is reached the closing tag is inserted, in training and validation. Inserted tokens are not trained on. null is no limit"`
	ThinkOpen   string       `yaml:"thinking_open" default:"<think>" owner:"trainer" null:"" doc:"tag that opens thinking, also if the chat template writes it; empty if responses start inside thinking without a tag"`
	ThinkClose  string       `yaml:"thinking_close" default:"</think>" owner:"trainer" doc:"tag that closes thinking"`
	Val         ValConfig    `yaml:"val_kwargs" owner:"trainer"`
}

// ValConfig is SamplingConfig at validation.
type ValConfig struct {
	Episodes    int     `yaml:"n" default:"1" count:"positive" unit:"episodes" doc:"episodes of each validation level"`
	Temperature float64 `yaml:"temperature" default:"1" range:"0,1e+06" must:"be in [1e-9, 1e6], or 0" doc:"divides the logits; 0 is greedy"`
	TopP        float64 `yaml:"top_p" default:"1" range:"0,1" noted:"actor_rollout_ref.rollout.val_kwargs.temperature is 0" doc:"keep the smallest set of tokens with this probability; 1 keeps all"`
	TopK        int     `yaml:"top_k" default:"-1" range:"-1,1e18" must:"be -1 or more" noted:"actor_rollout_ref.rollout.val_kwargs.temperature is 0" doc:"keep the k most likely tokens; -1 or 0 keeps all"`
}

// CriticPath returns the folder of a separate critic's weights: critic.model.path, "" if there is
// no separate critic.
func (c *Config) CriticPath() string {
	if c.Critic.Kind != "separate" {
		return ""
	}
	return c.Critic.Model.Path
}

// CriticConfig sets the critic.
type CriticConfig struct {
	Kind        string            `yaml:"kind" default:"separate" owner:"trainer" oneof:"separate shared none" noted:"" doc:"separate (its own model), shared (a head on the policy) or none"`
	Model       CriticModelConfig `yaml:"model" owner:"learner"`
	Optim       OptimConfig       `yaml:"optim" owner:"trainer" noted:"critic.kind is none; critic.kind is shared, which is updated together with the policy"`
	MiniBatch   *int              `yaml:"ppo_mini_batch_size" owner:"trainer" count:"positive" doc:"episodes per optimiser step of a separate critic; null uses the actor's"`
	Epochs      *int              `yaml:"ppo_epochs" owner:"trainer" count:"positive" doc:"passes of a separate critic over a step's episodes; null uses the actor's"`
	Shuffle     *bool             `yaml:"shuffle" owner:"trainer" doc:"shuffle the episodes of a separate critic's mini-batches; null uses the actor's"`
	GradClip    *float64          `yaml:"grad_clip" owner:"trainer" range:"0,1e+12" doc:"maximum global norm of a separate critic's gradient; null uses the actor's"`
	NormLimit   *float64          `yaml:"grad_norm_threshold" owner:"trainer" range:"0,1e+12" idle:"critic.kind is shared, which is updated together with the policy" doc:"skip optimiser steps of a separate critic whose gradient norm is at least this; 0 disables it, null uses the actor's"`
	MicroRows   int               `yaml:"ppo_micro_batch_size_per_gpu" null:"0" count:"0" owner:"learner" noted:"critic.kind is none; critic.kind is shared, which is updated together with the policy" unit:"rows" doc:"as for the actor, for a separate critic; null uses the actor's"`
	Dynamic     *bool             `yaml:"use_dynamic_bsz" owner:"learner" noted:"critic.kind is none; critic.kind is shared, which is updated together with the policy" doc:"as for the actor, for a separate critic; null uses the actor's"`
	MicroTokens int               `yaml:"ppo_max_token_len_per_gpu" default:"32768" count:"positive" owner:"learner" noted:"critic.kind is none; critic.kind is shared, which is updated together with the policy" unit:"tokens" doc:"as for the actor, for a separate critic"`
	ValueClip   float64           `yaml:"cliprange_value" owner:"trainer" range:"0,1e+12" doc:"maximum change of a value from the old value (value clipping); 0 disables it"`
	ValueCoef   float64           `yaml:"value_coef" default:"1" owner:"trainer" range:"0,1e+12" doc:"weight of the value loss"`
	OnTurnEnds  bool              `yaml:"use_reward_mask" owner:"trainer" doc:"train the critic on turn ends only; required by turn_wise_gae"`
	ZeroHead    bool              `yaml:"zero_head" owner:"learner" doc:"initialise a new value head with zeros"`
}

// TrainerConfig sets the length of training, and what is validated, logged and saved.
type TrainerConfig struct {
	Stage         string   `yaml:"stage" default:"rl" owner:"trainer" oneof:"rl sft sft+rl" doc:"rl, sft (supervised training only, as vagen sft does), or sft+rl: supervised training in the folder sft of the run, followed by reinforcement learning from its result"`
	Steps         int      `yaml:"total_training_steps" default:"100" owner:"trainer" null:"-1" count:"0" noted:"trainer.stage is sft, which has its own in group sft" doc:"training steps; null, or unset with train_files, makes total_epochs passes over data.train_files"`
	Epochs        int      `yaml:"total_epochs" default:"30" owner:"trainer" count:"positive" noted:"trainer.stage is sft, which has its own in group sft; .total_training_steps is not -1, which overrides it" doc:"passes over data.train_files when total_training_steps is null"`
	Project       string   `yaml:"project_name" default:"vagen" owner:"run" resume:"free" doc:"first part of the run folder's name"`
	Experiment    string   `yaml:"experiment_name" default:"run" owner:"run" resume:"free" doc:"second part of the run folder's name"`
	TestFreq      int      `yaml:"test_freq" default:"20" owner:"trainer" noted:"trainer.stage is sft, which has its own in group sft" doc:"validate every test_freq steps; 0 or less disables it"`
	SaveFreq      int      `yaml:"save_freq" owner:"checkpoint" noted:"trainer.stage is sft, which has its own in group sft" doc:"save a checkpoint every save_freq steps and at the end; 0 saves only at the end, -1 never"`
	ValBefore     bool     `yaml:"val_before_train" default:"true" owner:"trainer" doc:"validate before the first step"`
	CriticWarmup  int      `yaml:"critic_warmup" owner:"trainer" count:"0" doc:"first step, counted from 1, that trains the policy; the steps before it train only the critic. 0 and 1 train both from the beginning"`
	MaxSkipped    int      `yaml:"max_skipped_updates" default:"5" owner:"trainer" count:"positive" doc:"stop after this many consecutive skipped optimiser steps"`
	GPUs          int      `yaml:"n_gpus_per_node" count:"0" owner:"learner" resume:"devices" noted:"model.devices is not 0" doc:"as model.devices where that is 0, if this machine has so many GPUs"`
	Metrics       []string `yaml:"metrics" default:"[all]" owner:"trainer" doc:"diagnostics computed at every step, by name in package rollout/diagnose; [all] or [none]"`
	LoggingConfig `owner:"run"`

	Harness        string `yaml:"harness" default:"concat" owner:"trainer" doc:"how episodes become conversations, each of which is a training row: concat (one per episode), no_concat (one per turn), window (one per turn, with the previous turns), compact (when a conversation is full, a new one continues with a summary)"`
	CompactBudget  int    `yaml:"compact_budget" default:"4000" owner:"trainer" count:"0" idle:".harness is concat|no_concat|window, only compact reads it" doc:"compact: length in tokens at which a conversation is summarised; 0 summarises when max_trajectory_length is reached"`
	CompactSummary int    `yaml:"compact_summary_budget" owner:"trainer" count:"0" idle:".harness is concat|no_concat|window, only compact reads it" doc:"compact: maximum summary length in tokens; 0 uses a quarter of compact_budget, or the maximum response length if that is less"`

	SavingConfig `owner:"run" resume:"free"`
}

// Default returns the default configuration. Settings that the full VAGEN system has
// too have its defaults.
func Default() Config {
	var c Config
	settings.Default(&c)
	adam, own, actor, sft := policy.DefaultOptimizer(), loss.DefaultOptions(), &c.Agent.Actor, &c.SFT.Optim
	c.Algorithm.Params = advantage.DefaultParams()
	c.Algorithm.SelfDistill.Template = "Here is an example of an expert response:\n<demonstration>\n" + Demonstration +
		"\n</demonstration>"
	actor.GradClip, actor.NormLimit = adam.GradClip, adam.MaxGradNorm
	actor.Clip, actor.ClipDual, actor.Loss.Single, actor.TauPos, actor.TauNeg = own.ClipLow, own.DualClip, own.Single,
		own.TauPos, own.TauNeg
	c.Critic.ValueClip = loss.DefaultValue().Clip
	for o, rate := range map[*OptimConfig]float64{&actor.Optim: adam.Rate, &c.Critic.Optim: adam.CriticRate, sft: 1e-5} {
		o.Rate, o.Beta1, o.Beta2, o.Decay = rate, adam.Beta1, adam.Beta2, adam.WeightDecay
	}
	sft.WarmupRatio, sft.Style, sft.MinRatio = 0.05, "cosine", 0.1
	return c
}

// Repeats reports whether a run computes the same bits again, on a CPU of the same kind: those whose episodes depend
// on time, or on servers, do not.
func (c *Config) Repeats() bool { return !c.Run.Continuous && c.Run.Patience == 0 && !c.UsesEngine() }
