package advantage

import (
	"errors"
	"fmt"
	"reflect"

	"vagen/internal/byname"
)

// Params holds the hyperparameters of all estimators under the names that
// configurations use. Each estimator uses its own fields. Every field is used literally;
// start from DefaultParams.
type Params struct {
	Gamma       float64 // gamma: discount per token
	Lambda      float64 // lam
	TurnGamma   float64 // high_level_gamma, gamma_turn: discount per turn
	TurnLambda  float64 // lambda_turn
	TokenLambda float64 // lambda_token
	Mix         float64 // bi_level_mix
	NormByStd   bool    // norm_adv_by_std_in_grpo: divide by the group's standard deviation
	Epsilon     float64 // added to standard deviations; 0 is DefaultEpsilon
	StepWeight  float64 // weight of the step level in GiGPO
	PassK       int     // pass_k: rows of which the best counts; 0 is the whole group
	Whiten      bool    // whiten: advantages of estimators that do
}

// DefaultParams returns the defaults, also those of configurations: no discount per
// token, λ 1, turn discount 0.99, turn λ 0.95, mix 0.75; advantages are whitened, and
// divided by the group's standard deviation.
func DefaultParams() Params {
	return Params{Gamma: 1, Lambda: 1, TurnGamma: 0.99, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75, StepWeight: 1, NormByStd: true, Whiten: true}
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

	Mask      Mask // the mask it works under
	Rewards   Site // where rewards have to be
	NeedLoss  bool // the name implies a loss mask, so a run must have one
	Critic    bool // Values
	TurnEnds  bool // TurnEnd, as more than a hint
	Groups    bool // compares rows or episodes of one Group
	Baselines bool // Baselines
	States    bool // States
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

// Reads reports whether the estimator depends on a hyperparameter, which change alters.
// Estimators that are not plain values, such as functions, are assumed to read all.
func (s Spec) Reads(change func(*Params)) bool {
	was, is := DefaultParams(), DefaultParams()
	change(&is)
	return !reflect.DeepEqual(s.New(was), s.New(is))
}

// Registry maps names to estimators. The zero value is empty and ready, and all
// methods are safe for concurrent use.
type Registry struct{ specs byname.Table[*Spec] }

var entries = byname.Kind{Package: "advantage", Entry: "estimator", Unknown: ErrUnknown, Duplicate: ErrDuplicate}

// Register adds an estimator under its name. The error wraps ErrDuplicate when the
// name is taken. New must not be nil.
func (r *Registry) Register(s Spec) error {
	if s.New == nil {
		return r.specs.Register(entries, s.Name, nil)
	}
	return r.specs.Register(entries, s.Name, &s)
}

// Names returns all names in alphabetical order.
func (r *Registry) Names() []string { return r.specs.Names() }

// Describe returns the inputs and outputs of an estimator. An unknown name is an
// ErrUnknown that lists the names and the nearest one.
func (r *Registry) Describe(name string) (Spec, error) {
	s, err := r.specs.Get(entries, name)
	if err != nil {
		return Spec{}, err
	}
	return *s, nil
}

// New creates the estimator with this name. Errors are those of Describe, and
// ErrParameter for a hyperparameter that the estimator rejects.
func (r *Registry) New(name string, p Params) (Estimator, error) {
	s, err := r.Describe(name)
	if err != nil {
		return nil, err
	}
	if s.Undiscounted && p.Gamma != 1 {
		return nil, fmt.Errorf("advantage: %s: gamma: %v: %w (must be 1, because this estimator does not discount tokens)", name, p.Gamma, ErrParameter)
	}
	est := s.New(p)
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
		all[s.Name] = byname.Entry[*Spec]{Value: &s}
	}
	r := new(Registry)
	r.specs.Fill(all)
	return r
}

var builtin = Builtin()

// New creates an estimator of this package by name, as Registry.New does.
func New(name string, p Params) (Estimator, error) { return builtin.New(name, p) }

// Describe returns the inputs and outputs of an estimator of this package.
func Describe(name string) (Spec, error) { return builtin.Describe(name) }

// Names returns the names of the estimators of this package.
func Names() []string { return builtin.Names() }
