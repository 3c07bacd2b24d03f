package advantage

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/byname"
)

// Params holds the hyperparameters of all estimators. Their tags have the names, bounds and
// meanings that configurations use. Each estimator uses its own fields. Every field is used
// literally; start from DefaultParams.
type Params struct {
	Gamma         float64 `yaml:"gamma" range:"0,1" doc:"discount per token, in [0, 1]"`
	Lambda        float64 `yaml:"lam" range:"0,1" doc:"GAE's lambda, in [0, 1]"`
	TurnGamma     float64 `yaml:"high_level_gamma" range:"0,1" doc:"discount per turn of bi-level and turn-wise GAE, in [0, 1]"`
	TurnLambda    float64 `yaml:"lambda_turn" range:"0,1" doc:"lambda from turn to turn of trajectory_bi_level_gae, in [0, 1]"`
	TokenLambda   float64 `yaml:"lambda_token" range:"0,1" doc:"lambda within a turn of trajectory_bi_level_gae, in [0, 1]"`
	Mix           float64 `yaml:"bi_level_mix" range:"0,1" doc:"trajectory_bi_level_gae: 0 is token-level GAE, 1 is bi-level GAE; in [0, 1]"`
	StepWeight    float64 `yaml:"step_advantage_w" range:"0,1e+12" doc:"gigpo, graphgpo: weight of the comparison between turns from one state"`
	PassK         int     `yaml:"pass_k" doc:"grpo_passk: k of pass@k, the number of episodes whose maximum reward counts; 0 is the whole group"`
	Epsilon       float64 `yaml:"epsilon" range:"0,1" doc:"added to the standard deviation of a group; 0 is 1e-6"`
	Whiten        bool    `yaml:"whiten" doc:"whiten advantages, for estimators that whiten"`
	EpisodeWeight float64 `yaml:"episode_advantage_w" range:"0,1e+12" doc:"graphgpo: weight of the comparison between episodes"`
	Relative      bool    `yaml:"normalize_distance" doc:"graphgpo: reward a turn for how much nearer to success it comes"`
	History       int     `yaml:"history_length" range:"0,1000" doc:"hgpo: how many states before a turn's own may be compared"`
	Alpha         float64 `yaml:"length_weight_alpha" range:"0,8" doc:"hgpo: weight of k equal states is k+1 to this power"`
	Base          bool    `yaml:"base_group" doc:"hgpo: compare whole episodes, too"`
	OutputWeight  float64 `yaml:"num_output_tokens_weight" range:"0,1e+12" doc:"grpo_prime: price of the longest response, as a part of the mean score"`
	InputWeight   float64 `yaml:"num_input_tokens_weight" range:"0,1e+12" doc:"grpo_prime: price of the longest context"`
	TurnWeight    float64 `yaml:"num_turns_weight" range:"0,1e+12" doc:"grpo_prime: price of the most turns"`
	ZeroTail      bool    `yaml:"handle_zero_tail" doc:"optimal_token_baseline, tir_optimal_token_baseline: no baseline for tokens by which one row is longer than all others of its group"`
	Decay         float64 `yaml:"decay" range:"0,1" doc:"rae: share of an agent's baseline that one more episode leaves"`
	NormByStd     bool    `yaml:"norm_adv_by_std_in_grpo" doc:"divide group-relative advantages by the group's standard deviation"`
}

// DefaultParams returns the defaults, also those of configurations: no discount per
// token, λ 1, turn discount 0.99, turn λ 0.95, mix 0.75, two earlier states with weights that
// grow linearly, length at a tenth of the mean; advantages are whitened, and divided by the
// group's standard deviation.
func DefaultParams() Params {
	return Params{
		Gamma: 1, Lambda: 1, TurnGamma: 0.99, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75, StepWeight: 1,
		EpisodeWeight: 1, History: 2, Alpha: 1, OutputWeight: 0.1, InputWeight: 0.1, TurnWeight: 0.1,
		ZeroTail: true, Decay: 0.95, NormByStd: true, Whiten: true,
	}
}

// Mask names the mask that an estimator works under.
type Mask string

// The masks of Spec.
const (
	MaskAttention Mask = "attention" // Attention, or everything
	MaskLoss      Mask = "loss"      // Loss, else as MaskAttention
	MaskGAE       Mask = "gae"       // GAE, which has to be there
)

// Site names the tokens whose rewards an estimator counts. Rewards on other
// tokens have no effect; Result.Unread counts them.
type Site string

// The sites of Spec.
const (
	SiteAll     Site = "all"      // every token of the row, also context
	SiteMask    Site = "mask"     // tokens under the estimator's mask, and turn ends where those are needed
	SiteTurnEnd Site = "turn_end" // TurnEnd alone
)

// Spec describes the inputs and outputs of an estimator. A trainer reads it to reject
// contradictions before anything is loaded.
type Spec struct {
	Name  string // as configurations call it
	About string // what it does, as the middle of a sentence

	// What it reads.

	Mask      Mask // the mask it works under; "" is MaskLoss
	Rewards   Site // where rewards have to be; "" is SiteMask
	NeedLoss  bool // the name implies a loss mask, so a run must have one
	Critic    bool // Values
	TurnEnds  bool // TurnEnd, as more than a hint
	Groups    bool // compares rows or episodes of one Group
	Baselines bool // Baselines
	States    bool // States
	Next      bool // Next
	Squares   bool // LogProbs, SumPiSquared and Weights
	Running   bool // Agent and Running; it sets Result.Running
	// Components: reads Components, where there are any.
	Components bool
	// RowLocal means that a row is treated as a whole episode. Without it, rows
	// of one Trajectory are put together, so that harnesses may split episodes.
	RowLocal     bool
	Undiscounted bool // has no discount per token: needs gamma = 1

	// What it gives.

	Whitens   bool // advantages are whitened
	TurnIDs   bool // Result.TurnID, which turn-level losses need
	ValueMask bool // Result.ValueMask, which the critic's loss must obey

	// New creates the estimator. Registry.New checks the parameters afterwards.
	New func(Params) Estimator
}

// Reads reports whether the estimator depends on a hyperparameter, by its name in configurations.
// Estimators that are not plain values, such as functions, are assumed to read all.
func (s Spec) Reads(name string) bool {
	was, is := DefaultParams(), DefaultParams()
	f := reflect.ValueOf(&is).Elem().FieldByName(hyperparameter(name).Name)
	switch {
	case s.New == nil: // of a zero value
		return false
	case f.CanInt():
		f.SetInt(f.Int() + 1)
	case f.CanFloat() && f.Float() > 0:
		f.SetFloat(f.Float() / 2)
	case f.CanFloat():
		f.SetFloat(1)
	case f.IsValid():
		f.SetBool(!f.Bool())
	}
	return !reflect.DeepEqual(s.New(was), s.New(is))
}

// Idle returns the hyperparameter with whose value another one has no effect, "" for none: all fields that the tag
// needs of the estimator's field lists are zero, and this is the first.
func (s Spec) Idle(name string, p Params) string {
	var e reflect.Value
	if s.New != nil {
		e = reflect.ValueOf(s.New(p))
	}
	if e.Kind() != reflect.Struct {
		return ""
	}
	own, _ := e.Type().FieldByName(hyperparameter(name).Name)
	needs := strings.Fields(own.Tag.Get("needs"))
	if len(needs) == 0 || slices.ContainsFunc(needs, func(n string) bool { return !e.FieldByName(n).IsZero() }) {
		return ""
	}
	by, _ := reflect.TypeFor[Params]().FieldByName(needs[0])
	return by.Tag.Get("yaml")
}

// hyperparameter is the field of Params with a name in configurations.
func hyperparameter(name string) (f reflect.StructField) {
	for i := range reflect.TypeFor[Params]().NumField() {
		if x := reflect.TypeFor[Params]().Field(i); x.Tag.Get("yaml") == name {
			f = x
		}
	}
	return f
}

// Registry maps names to estimators. The zero value is empty and ready, and all
// methods are safe for concurrent use.
type Registry struct{ specs byname.Table[*Spec, kind] }

// kind is the kind of a registry's entries.
type kind struct{}

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "advantage", Entry: "estimator", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Register adds an estimator under its name. The error wraps ErrDuplicate when the
// name is taken. New must not be nil.
func (r *Registry) Register(s Spec) error {
	if s.New == nil {
		return r.specs.Register(s.Name, nil)
	}
	return r.specs.Register(s.Name, &s)
}

// Names returns all names in alphabetical order.
func (r *Registry) Names() []string { return r.specs.Names() }

// Describe returns the inputs and outputs of an estimator. An unknown name is an
// ErrUnknown that lists the names and the nearest one.
func (r *Registry) Describe(name string) (Spec, error) {
	found, err := byname.Get(&r.specs, name)
	if err != nil {
		return Spec{}, err
	}
	s := *found
	s.Mask, s.Rewards = cmp.Or(s.Mask, MaskLoss), cmp.Or(s.Rewards, SiteMask)
	return s, nil
}

// New creates the estimator with this name. Errors are those of Describe, and
// ErrParameter for a hyperparameter that the estimator rejects.
func (r *Registry) New(name string, p Params) (Estimator, error) {
	s, err := r.Describe(name)
	if err != nil {
		return nil, err
	}
	if s.Undiscounted && p.Gamma != 1 {
		return nil, fmt.Errorf("advantage: %s: gamma: %v: %w (must be 1, because this estimator does not discount tokens)",
			name, p.Gamma, ErrParameter)
	}
	est, err := byname.Made(s.New(p), nil)
	if err != nil {
		return nil, fmt.Errorf("advantage: %s: %w", name, err)
	}
	// Estimators look at their parameters before they look at the batch, so an
	// empty batch is enough to check the parameters.
	if err := est.Estimate(new(Result), new(Batch)); errors.Is(err, ErrParameter) {
		return nil, err
	}
	return est, nil
}

// Builtin returns a new registry with the estimators of this package.
func Builtin() *Registry {
	all := make(map[string]byname.Entry[*Spec], len(specs))
	for _, s := range specs {
		s.Whitens = s.Reads("whiten")
		all[s.Name] = byname.Entry[*Spec]{Value: &s}
	}
	r := new(Registry)
	byname.Fill(&r.specs, all)
	return r
}

var builtin = Builtin()

// New creates an estimator of this package by name, as Registry.New does.
func New(name string, p Params) (Estimator, error) { return builtin.New(name, p) }

// Describe returns the inputs and outputs of an estimator of this package.
func Describe(name string) (Spec, error) { return builtin.Describe(name) }

// Names returns the names of the estimators of this package.
func Names() []string { return builtin.Names() }
