package advantage

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreUniqueAndSorted(t *testing.T) {
	require.Len(t, Names(), len(specs), "two estimators share a name")
	require.True(t, slices.IsSorted(Names()))
}

// TestParamsReachTheEstimator compares with values written out, so that two
// swapped parameters show.
func TestParamsReachTheEstimator(t *testing.T) {
	p := Params{
		Gamma: 0.91, Lambda: 0.82, TurnGamma: 0.73, TurnLambda: 0.64, TokenLambda: 0.55,
		Mix: 0.46, Epsilon: 0.37, StepWeight: 0.28, PassK: 5,
		History: 6, Alpha: 1.9, Base: true, EpisodeWeight: 0.29, Relative: true,
		ZeroTail: true, Decay: 0.23,
		OutputWeight: 0.17, InputWeight: 0.18, TurnWeight: 0.19,
	}
	for name, want := range map[string]Estimator{
		"gae":                          GAE{Gamma: 0.91, Lambda: 0.82},
		"masked_gae":                   Masked{Gamma: 0.91, Lambda: 0.82},
		"lite_gae":                     Lite{Gamma: 0.91, Lambda: 0.82},
		"bi_level_gae":                 BiLevel{Gamma: 0.91, Lambda: 0.82, TurnGamma: 0.73},
		"turn_wise_gae":                TurnWise{TurnGamma: 0.73, Lambda: 0.82},
		"grpo":                         GRPO{Epsilon: 0.37},
		"masked_grpo":                  GRPO{Epsilon: 0.37},
		"lite_grpo":                    GRPO{Epsilon: 0.37},
		"grpo_passk":                   PassK{K: 5, Epsilon: 0.37},
		"rloo":                         RLOO{},
		"opo":                          OPO{},
		"gpg":                          GPG{},
		"reinforce_plus_plus":          ReinforcePlusPlus{Gamma: 0.91},
		"reinforce_plus_plus_baseline": ReinforcePlusPlusBaseline{},
		"remax":                        ReMax{},
		"rae":                          RAE{0.23},
		"optimal_token_baseline":       OptimalBaseline{ZeroTail: true},
		"tir_optimal_token_baseline":   OptimalBaseline{Packed: true, ZeroTail: true},
		"gigpo":                        GiGPO{Gamma: 0.91, StepWeight: 0.28, Epsilon: 0.37},
		"grpo_ragen":                   EpisodeGRPO{Epsilon: 0.37, Joined: true},
		"grpo_prime":                   LengthGRPO{OutputWeight: 0.17, InputWeight: 0.18, TurnWeight: 0.19},
		"maxrl_skyrl":                  MaxRL{Epsilon: 0.37},
		"gdpo":                         GDPO{Epsilon: 0.37},
		"gdpo_trl":                     GDPO{OverRows: true},
		"max_rl_prime":                 MaxRL{Guarded: true},
		"reinforce_plus_plus_slime":    ReinforcePlusPlus{Gamma: 0.91, Across: true},
		"hgpo":                         HGPO{Gamma: 0.91, History: 6, Alpha: 1.9, Base: true, Epsilon: 0.37},
		"graphgpo": GraphGPO{Gamma: 0.91, StepWeight: 0.28, EpisodeWeight: 0.29, Relative: true,
			Epsilon: 0.37},
		"bi_level_gae_varlam":     TrajectoryBiLevel{TurnGamma: 1, TurnLambda: 0.64, TokenLambda: 0.55, Mix: 1},
		"no_concat_gae":           NoConcat{Gamma: 0.91, Lambda: 0.82},
		"no_concat_gae_first":     NoConcat{Gamma: 0.91, Lambda: 0.82},
		"no_concat_gae_last":      NoConcat{Gamma: 0.91, Lambda: 0.82, Last: true},
		"default_gae":             TrajectoryOutcome{Gamma: 0.91, Lambda: 0.82},
		"token_level_gae":         TrajectoryToken{Gamma: 0.91, Lambda: 0.82},
		"turn_level_gae":          TrajectoryTurn{Gamma: 0.91, Lambda: 0.82},
		"trajectory_bi_level_gae": TrajectoryBiLevel{TurnGamma: 0.73, TurnLambda: 0.64, TokenLambda: 0.55, Mix: 0.46},
		"bi_level_gae_published":  TrajectoryTwoPass{Gamma: 0.91, Lambda: 0.82, TurnGamma: 0.73},
		"trajectory_grpo":         TrajectoryGRPO{Epsilon: 0.37},
	} {
		require.Equal(t, want, named(t, name, p), name)
	}
}

func TestDefaultsAreThoseOfConfigurations(t *testing.T) {
	want := Params{
		Gamma: 1, Lambda: 1, TurnGamma: 0.99, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75, StepWeight: 1,
		EpisodeWeight: 1, History: 2, Alpha: 1, OutputWeight: 0.1, InputWeight: 0.1, TurnWeight: 0.1,
		ZeroTail: true, Decay: 0.95, NormByStd: true, Whiten: true,
	}
	require.Equal(t, want, DefaultParams())
}

// TestSpecsDescribeWhatEstimatorsPublish compares Specs with results.
func TestSpecsDescribeWhatEstimatorsPublish(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		out := run(t, est, good())
		require.Equal(t, spec.ValueMask, out.ValueMask != nil, "value mask")
		require.Equal(t, spec.TurnIDs, out.TurnID != nil, "turn ids")
		require.Equal(t, spec.Whitens, out.Raw.N > 0, "whitened positions")
		if spec.ValueMask {
			require.Equal(t, MaskFromReturns(nil, out.Returns), out.ValueMask)
		}
		if spec.TurnIDs {
			want, err := good().TurnIDs(nil)
			require.NoError(t, err)
			require.Equal(t, want, out.TurnID)
		}
	})
}

func TestAReusedResultHoldsNothingOfOtherEstimators(t *testing.T) {
	var out Result
	b := good()
	for _, name := range []string{"turn_level_gae", "grpo"} {
		require.NoError(t, named(t, name, testParams()).Estimate(&out, b))
	}
	require.Nil(t, out.ValueMask)
	require.Nil(t, out.TurnID)
	require.Zero(t, out.Raw)
}

func TestAFactoryMustReturnAnEstimator(t *testing.T) {
	var r Registry
	require.NoError(t, r.Register(Spec{Name: "empty", New: func(Params) Estimator { return nil }}))
	_, err := r.New("empty", DefaultParams())
	require.EqualError(t, err, "advantage: empty: its factory returned nil")
}

func TestUnknownNamesSuggestTheNearest(t *testing.T) {
	for name, want := range map[string]string{
		"bilevel_gae": `did you mean "bi_level_gae"?`,
		"GRPO":        `known: bi_level_gae, `,
		"maskd_gae":   `did you mean "masked_gae"?`,
		"rlo":         `did you mean "rloo"?`,
		"gpo":         `did you mean "gdpo"?`, // as near as gpg, grpo and opo, and first
		"":            "known: ",
	} {
		_, err := New(name, DefaultParams())
		require.ErrorIs(t, err, ErrUnknown, name)
		for _, says := range append(Names(), want) {
			require.ErrorContains(t, err, says, name)
		}
	}
	_, err := New("a very long name that nothing resembles", DefaultParams())
	require.NotContains(t, err.Error(), "did you mean")
}

func TestBadParametersAreRefusedByName(t *testing.T) {
	for _, name := range Names() {
		p := DefaultParams()
		p.Gamma, p.Epsilon, p.Lambda, p.TurnWeight, p.Decay = 1.5, -1, -1, -1, -1
		_, err := New(name, p)
		switch name {
		case "rloo", "opo", "gpg", "remax", "reinforce_plus_plus_baseline", "max_rl_prime", "gdpo_trl",
			"optimal_token_baseline", "tir_optimal_token_baseline":
			require.NoError(t, err, "%s has no parameters", name)
		default:
			refuse(t, name, err, ErrParameter)
		}
	}
	p := DefaultParams()
	p.Gamma = 0.99
	_, err := New("trajectory_bi_level_gae", p)
	refuse(t, "undiscounted", err, ErrParameter, "gamma: 0.99")
}

func TestRegistriesGrow(t *testing.T) {
	var r Registry
	require.Empty(t, r.Names(), "the zero registry")
	mine := Spec{Name: "mine", New: func(p Params) Estimator { return GAE{Gamma: p.Gamma, Whiten: true} }}
	require.NoError(t, r.Register(mine))
	est, err := r.New("mine", Params{Gamma: 0.5})
	require.NoError(t, err)
	require.Equal(t, GAE{Gamma: 0.5, Whiten: true}, est)
	for what, s := range map[string]Spec{"same name": mine, "no name": {New: mine.New}, "no constructor": {Name: "x"}} {
		require.Error(t, r.Register(s), what)
	}
	all := Builtin()
	require.NoError(t, all.Register(mine))
	_, err = Describe("mine")
	require.Error(t, err, "adding to a copy changed the default registry")
}

// TestSettingsHaveNoEffectBesideOthers: what is multiplied by 0, or added to a deviation that nothing is divided by.
func TestSettingsHaveNoEffectBesideOthers(t *testing.T) {
	undivided, still, plain, alone := DefaultParams(), DefaultParams(), DefaultParams(), DefaultParams()
	undivided.NormByStd, still.StepWeight, plain.Mix, alone.History = false, 0, 0, 0
	for _, c := range []struct {
		beside  Params
		by      string
		setting string
		unread  string // by these estimators, though they have the setting
	}{
		{undivided, "norm_adv_by_std_in_grpo", "epsilon",
			"gdpo gigpo graphgpo grpo grpo_passk grpo_ragen lite_grpo masked_grpo trajectory_grpo"},
		{still, "step_advantage_w", "gamma", "gigpo graphgpo"},
		{still, "step_advantage_w", "normalize_distance", "graphgpo"},
		{plain, "bi_level_mix", "high_level_gamma", "trajectory_bi_level_gae"},
		{plain, "bi_level_mix", "lambda_turn", "trajectory_bi_level_gae"},
		{alone, "history_length", "length_weight_alpha", "hgpo"},
	} {
		var unread []string
		for _, s := range specs {
			if s.Reads(c.setting) && s.Idle(c.setting, c.beside) == c.by {
				unread = append(unread, s.Name)
			}
		}
		slices.Sort(unread)
		require.Equal(t, c.unread, strings.Join(unread, " "), c.setting)
	}
	alone.Base = true
	hgpo, err := Describe("hgpo")
	require.NoError(t, err)
	require.Empty(t, hgpo.Idle("length_weight_alpha", alone))
}
