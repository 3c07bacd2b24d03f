package config

// SFTConfig sets the supervised stage: its data, which of their tokens are learned, and its
// optimiser. Fields are read only if trainer.stage has sft.
type SFTConfig struct {
	TrainFiles  []string `yaml:"train_files" default:"[]" doc:"files of examples: conversations in .jsonl or .parquet, or episodes that a run wrote to trainer.rollout_data_dir, which are recognised by their columns"`
	ValFiles    []string `yaml:"val_files" default:"[]" doc:"files of examples that only sft/val_loss is computed on"`
	ValFraction float64  `yaml:"val_fraction" default:"0.05" range:"0,0.9" noted:"trainer.stage is rl; .val_files is not empty, which has the examples for validation" doc:"share of the examples that is held out for sft/val_loss if val_files is empty, lessons as a whole; 0 holds out none"`

	Messages string `yaml:"messages_key" default:"messages" noted:"trainer.stage is rl; sft.train_files is empty" doc:"column with the messages of a conversation"`
	Prompt   string `yaml:"prompt_key" default:"prompt" noted:"trainer.stage is rl; sft.train_files is empty" doc:"column with the prompt, a text or messages, in files without messages_key; a dot separates the parts of nested columns"`
	Response string `yaml:"response_key" default:"response" noted:"trainer.stage is rl; sft.train_files is empty" doc:"column with the response to prompt_key"`
	Images   string `yaml:"images_key" default:"images" noted:"trainer.stage is rl; sft.train_files is empty" doc:"column with the images of a conversation, for the marks <image> in its texts in order"`

	Episodes  string   `yaml:"episodes" default:"success" oneof:"success all" noted:"trainer.stage is rl; sft.train_files is empty" doc:"recorded episodes to learn from: success or all"`
	MinReturn *float64 `yaml:"min_return" range:"-1.7976931348623157e308,1.7976931348623157e308" must:"be finite" noted:"trainer.stage is rl; sft.train_files is empty" doc:"minimum return of recorded episodes to learn from; null is no minimum"`

	Lessons LessonConfig `yaml:"lessons" noted:"trainer.stage is rl; sft.lessons.teacher is empty"`

	Turns      string `yaml:"turns" default:"all" oneof:"all first last" doc:"assistant messages that are learned: all, first or last of a conversation. The others, and the messages of other roles, are context without a loss"`
	MaxLength  int    `yaml:"max_length" count:"0" unit:"tokens" doc:"maximum length of an example; 0 is no limit besides the model's"`
	Truncation string `yaml:"truncation" default:"error" oneof:"error drop right" noted:"trainer.stage is rl; sft.max_length is 0" doc:"handling of longer examples: error, drop, or right, which leaves out the turns at the end that do not fit"`

	Batch       int         `yaml:"train_batch_size" default:"32" count:"positive,4194304" doc:"examples per optimiser step; several short ones share a sequence of a micro-batch, without attending to each other"`
	Shuffle     bool        `yaml:"shuffle" default:"true" doc:"shuffle the examples in every epoch"`
	Aggregation string      `yaml:"loss_agg_mode" default:"token-mean" oneof:"token-mean seq-mean-token-mean token-count" doc:"how the tokens of a batch are averaged: token-mean, which divides by the sum of their weights, seq-mean-token-mean, in which every example has the same weight, or token-count, which divides by the number of tokens with a weight, as prime-rl, so that equal weights scale the loss"`
	Loss        string      `yaml:"loss_type" default:"nll" oneof:"nll dft" doc:"loss of a token: nll, its negative log-prob, or dft, that times its probability, so that unlikely tokens are learned less"`
	Optim       OptimConfig `yaml:"optim"`
	GradClip    float64     `yaml:"grad_clip" default:"1" range:"0,1e+12" doc:"maximum global norm of the gradient; larger gradients are scaled down"`
	Steps       int         `yaml:"total_training_steps" default:"-1" null:"-1" count:"positive" doc:"optimiser steps of the supervised stage; null makes total_epochs passes over the examples"`
	Epochs      int         `yaml:"total_epochs" default:"1" count:"positive" noted:"trainer.stage is rl; .total_training_steps is not -1, which overrides it" doc:"passes over the examples if total_training_steps is null. Those that sft.truncation drops, or that have no token with a weight, count too, so that there are a few more passes"`
	TestFreq    int         `yaml:"test_freq" default:"20" doc:"compute sft/val_loss every test_freq steps, before the first step and after the last one; 0 or less disables it, but not val_fraction"`
	SaveFreq    int         `yaml:"save_freq" doc:"save a checkpoint every save_freq steps and at the end; 0 saves only at the end, -1 never"`
}

// LessonConfig sets episodes of env.name that a script plays.
type LessonConfig struct {
	Teacher   string  `yaml:"teacher" null:"" noted:"trainer.stage is rl" doc:"script of the environment that plays the lessons, such as shortest_path of frozenlake, sokoban and navigation; empty plays none. An unknown name is an error that lists those of the environment"`
	Episodes  int     `yaml:"episodes" default:"512" count:"positive,4194304" doc:"number of episodes"`
	Noise     float64 `yaml:"noise" range:"0,1" doc:"probability that a move is random instead, so that the lessons also show how to continue from poor states; in [0, 1]"`
	MaxTurns  int     `yaml:"max_turns" count:"0" doc:"maximum turns of a lesson; 0 uses rollout_manager.max_turns"`
	FirstSeed *int64  `yaml:"first_seed" range:"-2305843009213693952,2305843009213693952" must:"be in [-2^61, 2^61]" doc:"seed of the first level; null uses the levels directly before env.train_seed, which neither training nor validation plays"`
}

// The values of trainer.stage.
const (
	StageRL      = "rl"
	StageSFT     = "sft"
	StageSFTThen = "sft+rl"
)

// SFTTokenCount is the value of sft.loss_agg_mode that is no loss.Mode.
const SFTTokenCount = "token-count"

// The values of sft.turns, sft.episodes and sft.truncation.
const (
	TurnsAll, TurnsFirst, TurnsLast                  = "all", "first", "last"
	EpisodesAll, EpisodesSuccess                     = "all", "success"
	TruncationError, TruncationDrop, TruncationRight = "error", "drop", "right"
)

// FirstLesson is the seed of the first lesson.
func (c *Config) FirstLesson() int64 {
	if s := c.SFT.Lessons.FirstSeed; s != nil {
		return *s
	}
	return c.Env.Seed - int64(c.SFT.Lessons.Episodes)
}

// Supervised returns the configuration of the supervised stage alone. Steps, validations and
// checkpoints of its run are those of group sft. It plays no episodes that could be stored.
func (c *Config) Supervised() Config {
	s := *c
	t := &s.Trainer
	t.Stage = StageSFT
	t.Steps, t.TestFreq, t.SaveFreq, t.ValBefore = s.SFT.Steps, s.SFT.TestFreq, s.SFT.SaveFreq, s.SFT.TestFreq > 0
	t.RolloutDir, t.ValDir, t.RolloutScores, t.LogImage.Enable = nil, nil, false, false
	s.Agent.Rollout.Engine.Addresses = []string{} // no response is generated
	s.Run.Queue, s.Run.Continuous = "", false     // and no episode played
	s.Model.RolloutDType, s.Model.DraftTokens = "float32", 0
	if c.Trainer.Stage == StageSFTThen { // these settings are for the second stage
		t.BestActor, s.Hub.Freq = false, nil
		s.Stability.Spike.Metric, s.Stability.Early.Metric = "", ""
	}
	return s
}

// Reinforced returns the configuration of reinforcement learning after the supervised stage,
// for the model that the stage wrote to a folder.
func (c *Config) Reinforced(model string) Config {
	r := *c
	r.Trainer.Stage, r.SFT, r.Agent.Model.Path = StageRL, Default().SFT, model
	return r
}

// frequencies returns the steps between validations and between checkpoints, and the group of their keys. Those of
// trainer.stage sft+rl are of its second stage.
func (c *Config) frequencies() (group string, test, save int) {
	if c.Trainer.Stage == StageSFT {
		return "sft", c.SFT.TestFreq, c.SFT.SaveFreq
	}
	return "trainer", c.Trainer.TestFreq, c.Trainer.SaveFreq
}

// supervised checks group sft and trainer.stage.
func (v *validator) supervised(c *Config) {
	t, s := &c.Trainer, &c.SFT
	v.optim("sft.optim", &s.Optim, "sft.total_training_steps", s.Steps)
	for _, column := range [][2]string{{"messages_key", s.Messages}, {"prompt_key", s.Prompt},
		{"response_key", s.Response}, {"images_key", s.Images}} {
		if column[1] == "" {
			v.Say("{sft.%s} is empty, must be the name of a column", column[0])
		}
	}
	if t.Stage == StageRL {
		return
	}
	v.lessons(c)
	if k := &c.Stability.Spike; t.Stage == StageSFT && k.Metric != "" && k.Action == ActionRollback && !s.Shuffle {
		v.Say("{stability.spike.action} is rollback, but {sft.shuffle} is false: " +
			"the same examples would follow in the same order")
	}
	if len(s.TrainFiles) == 0 && s.Lessons.Teacher == "" {
		v.Say("{trainer.stage} is %s, but both {sft.train_files} and {sft.lessons.teacher} are empty: there is nothing to learn from", t.Stage)
	}
	if t.Stage == StageSFTThen && c.Agent.Model.Adapter != "" {
		v.Say("{trainer.stage} is sft+rl, but {actor_rollout_ref.model.lora_adapter_path} is set: reinforcement learning starts from the model with the adapter merged in, so continue the adapter with {trainer.stage} sft, or set {actor_rollout_ref.model.lora_rank} for new adapters in both stages")
	}
	if t.Stage == StageSFTThen && s.SaveFreq < 0 {
		v.Say("{trainer.stage} is sft+rl, but {sft.save_freq} is %d: the second stage starts from a checkpoint of the first",
			s.SaveFreq)
	}
	if t.Stage == StageSFTThen && t.ResumeMode == resumePath {
		v.Say("{trainer.stage} is sft+rl, but {trainer.resume_mode} is resume_path: the checkpoint belongs to one of the stages, so set {trainer.stage} to it")
	}
}

// lessons checks the lessons of the supervised stage against the environment.
func (v *validator) lessons(c *Config) {
	l := &c.SFT.Lessons
	if l.Teacher == "" {
		return
	}
	if c.Env.Name == "" {
		v.Say("{sft.lessons.teacher} is %s, but {env.name} is empty: lessons are episodes of env.name", l.Teacher)
	}
	if c.Rollout.UseService {
		v.Say("{sft.lessons.teacher} is %s, but {rollout_manager.use_service} is true: a service has no scripts", l.Teacher)
	}
	if h := c.Trainer.Harness; h != "concat" && h != "no_concat" {
		v.Say("{sft.lessons.teacher} is %s, but {trainer.harness} is %s: lessons are written for concat and no_concat",
			l.Teacher, h)
	}
	from, to := c.FirstLesson(), c.FirstLesson()+int64(l.Episodes)
	if n := int64(c.Data.ValBatch); len(c.Data.ValFiles) == 0 && from < c.Env.ValSeed+n && c.Env.ValSeed < to {
		v.Say("lessons are on levels [%d, %d), which overlap the validation levels [%d, %d): move {sft.lessons.first_seed} or {env.val_seed}", from, to, c.Env.ValSeed, c.Env.ValSeed+n)
	}
}
