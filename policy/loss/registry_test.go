package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestTheRegistryBuildsWhatTheOptionsSay(t *testing.T) {
	o := DefaultOptions()
	o.ClipLow, o.ClipHigh, o.DualClip, o.DRO.Beta = 0.1, 0.3, 4, 0.7
	for name, want := range map[string]Policy{
		"vanilla":   PPO{Low: 0.1, High: 0.3, Dual: 4, Clamp: true},
		"ppo":       PPO{Low: 0.1, High: 0.3, Dual: 4, Clamp: true},
		"gspo":      GSPO{0.1, 0.3},
		"turn_gspo": TurnGSPO{0.1, 0.3},
		"turn_ppo":  TurnPPO{0.1, 0.3},
		"cispo":     CISPO{0.1, 0.3},
		"sapo":      SAPO{1, 1.05},
		"gmpo":      GMPO{0.1, 0.3},
		"geo_mean":  GMPO{0.1, 0.3},
		"clip_cov":  ClipCov{0.1, 0.3, 0.0002, 1, 5},
		"kl_cov":    KLCov{0.0002, 0.1},
		"reinforce": Reinforce{},
		"gpg":       Reinforce{},

		"dppo_tv":    DPPO{Low: 0.1, High: 0.3, Cap: 4},
		"dppo_kl":    DPPO{Low: 0.1, High: 0.3, Cap: 4, KL: true},
		"dppo_prime": PrimeDPPO{Low: 0.2, High: 0.2, AdvTau: 1, KLTau: 1e-3},
		"ipo":        PrimeDPPO{High: 0.1, AdvTau: 1, KLTau: 1e-3, Symmetric: true},
		"dro":        DRO{0.7},
		"vespo":      VESPO{2, 3, 3, 2},
		"luspo":      LUSPO{Low: 0.1, High: 0.3},
		"dppo_skyrl": DPPO{Low: 0.2, High: 0.2, Surrogate: true},
		"opd":        Distill{KL: "k3", Clamp: 10, Policy: PPO{Low: 0.1, High: 0.3, Dual: 4, Clamp: true}},
		"ref_kl":     Distill{KL: K1, Policy: PrimeDPPO{Low: 0.2, AdvTau: 1, KLTau: 1e-3, Falling: true}},
		"sdft":       Distill{Cap: 2, Over: Divergence{Form: Renormalised, Choice: Choice{ByStudent, 100}, Alpha: 0.5}},
		"m2po":       M2PO{PPO: PPO{Low: 0.1, High: 0.3, Dual: 4, Clamp: true}, Threshold: 0.04},
	} {
		require.Equal(t, want, built(t, name, o), name)
	}
	require.Len(t, Builtin().Names(), 25, "as many as in the table above")
}

// TestDefaultsAreThePublishedOnes, as far as no table above has them.
func TestDefaultsAreThePublishedOnes(t *testing.T) {
	require.Equal(t, ClipCov{0.2, 0.2, 0.0002, 1, 5}, DefaultClipCov())
	require.Equal(t, []PPO{{0.2, 0.2, 0, true}, {0.2, 0.2, 3, true}, {0.2, 0.2, 0, false}},
		[]PPO{DefaultPPO(), LitePPO(), LegacyPPO()})
	require.Equal(t, Value{0.5}, DefaultValue())
	require.Equal(t, 0.05, DefaultOptions().DRO.Beta)
}

// TestTeachersAreBuiltFromTheirOptions, with errors that name the setting.
func TestTeachersAreBuiltFromTheirOptions(t *testing.T) {
	o := DefaultOptions()
	o.DistillKL, o.DistillPG = "forward_kl_topk", false
	got := built(t, "opd", o)
	top := Divergence{Form: Raised, Choice: Choice{ByTeacher, 128}, Floor: -10}
	require.Equal(t, Distill{Over: top, Clamp: 10}, got)
	o.SDFTAlpha = 1
	for mode, want := range map[string]Distill{
		"full_logits":           {Cap: 2, Over: Divergence{Form: Whole, Choice: Choice{By: WholeVocabulary}, Alpha: 1}},
		"sampled_token":         {Cap: 2, KL: K1, Policy: Reinforce{}},
		"forward_cross_entropy": {Cap: 2, Over: Divergence{Form: CrossEntropy, Choice: Choice{ByTeacher, 100}}},
		"reverse_kl":            {Cap: 2, Over: Divergence{Form: Renormalised, Choice: Choice{ByTeacher, 100}, Alpha: 1}},
	} {
		o.SDFTMode = mode
		require.Equal(t, want, built(t, "sdft", o))
	}
	for want, c := range map[string]struct {
		name string
		set  func(*Options)
	}{
		"distillation_add_tail is true":       {"sdft", func(o *Options) { o.SDFTTail, o.SDFTMode = true, "x" }},
		"distillation_alpha is 0.5":           {"sdft", func(o *Options) { o.SDFTMode = "sampled_token" }},
		`distillation_mode is "x"`:            {"sdft", func(o *Options) { o.SDFTMode = "x" }},
		"Low = -1":                            {"opd", func(o *Options) { o.ClipLow = -1 }},
		`kl "x"`:                              {"reinforce", func(o *Options) { o.DistillKL, o.DistillCoef = "x", 0.5 }},
		"an off-policy mask reads advantages": {"opd", func(o *Options) { o.OPSMDelta = new(float64) }},
	} {
		o := DefaultOptions()
		c.set(&o)
		_, err := Builtin().New(c.name, o)
		require.ErrorContains(t, err, want)
	}
	o = DefaultOptions()
	o.OPSMDelta = new(float64)
	built(t, "luspo", o) // without a KL
}

// onlyCompares is a custom loss that compares tokens, and does not say that it learns from a teacher.
type onlyCompares struct{ Policy }

func (onlyCompares) Compares() Choice { return Choice{ByTeacher, 2} }

func TestAnyLossCanBeMasked(t *testing.T) {
	o, delta := DefaultOptions(), 0.5
	o.MaskThreshold = &delta
	got := built(t, "reinforce", o)
	require.Equal(t, OffPolicyMask{Policy: Reinforce{}, Delta: 0.5, FromSampling: true}, got)
	require.False(t, Local(got))
	require.True(t, Sampled(got))
	o.OPSMDelta = &delta
	_, err := Builtin().New("reinforce", o)
	require.ErrorIs(t, err, ErrSetting, "two masks at once")
	r := new(Registry)
	require.NoError(t, r.Register("mine", func(Options) (Policy, error) { return onlyCompares{Reinforce{}}, nil }))
	o.OPSMDelta = nil
	_, err = r.New("mine", o)
	require.ErrorContains(t, err, "an off-policy mask reads advantages")
	o.KL = K3
	_, err = Builtin().New("luspo", o)
	require.ErrorContains(t, err, "set use_bias_correction_kl to false")
	o.MaskThreshold, o.OPSMDelta = nil, &delta
	require.False(t, Sampled(built(t, "reinforce", o)), "a mask since the update began")
}

// TestAnyLossCanHaveATeacherBesideIt: loss and gradients are sums, with rollout weights and one aggregation.
func TestAnyLossCanHaveATeacherBesideIt(t *testing.T) {
	o := DefaultOptions()
	for _, estimate := range []string{"k1", "forward_kl_topk"} {
		o.DistillKL, o.DistillTopK, o.DistillCoef, o.DistillPG = estimate, 3, 0, estimate == "k1"
		teacher := built(t, "opd", o)
		for _, name := range Builtin().Names() {
			o.DistillCoef = 0
			p := built(t, name, o)
			o.DistillCoef = 0.5
			both, err := Builtin().New(name, o)
			if Teacher(p) {
				require.ErrorContains(t, err, "learns from a teacher alone, want 0", name)
				continue
			}
			require.NoError(t, err, name)
			require.Equal(t, []any{true, ChoiceOf(teacher), Local(p), Sampled(p)},
				[]any{Teacher(both), ChoiceOf(both), Local(both), Sampled(both)}, name)
			mode, err := ModeOf(both)
			require.NoError(t, err)
			b, a := randomBatch(4), Aggregation{Mode: mode}
			got, task, taught := mustEval(t, both, a, b), mustEval(t, p, a, b), mustEval(t, teacher, a, b)
			near(t, name, got.Loss, task.Loss+0.5*taught.Loss, 1e-12)
			for i := range b.Mask {
				near(t, name, got.Grad[i], task.Grad[i]+0.5*taught.Grad[i], 1e-12)
			}
			require.Len(t, got.GradChosen, len(taught.GradChosen))
			for i, g := range taught.GradChosen {
				near(t, name, got.GradChosen[i], 0.5*g, 1e-12)
			}
		}
	}
	for _, p := range []Taught{{Distill: Distill{KL: K1}}, {Policy: Reinforce{}}, {Policy: Distill{KL: K1},
		Distill: Distill{KL: K1}}, {Policy: Reinforce{}, Distill: Distill{KL: K1}, Coef: -1}} {
		var r Result
		require.ErrorIs(t, Eval(&r, p, Aggregation{}, randomBatch(4)), ErrSetting)
	}
}

func TestTheRegistryRefusesBeforeARunStarts(t *testing.T) {
	for _, name := range Builtin().Names() {
		_, err := Builtin().New(name, Options{ClipLow: -1})
		free := slices.Contains([]string{"reinforce", "gpg", "dppo_prime", "ipo", "vespo", "ref_kl"}, name)
		require.Equal(t, free, err == nil, "%s with a negative clip range", name)
	}
	_, err := Builtin().New("turn-gspo", DefaultOptions())
	testkit.Error(t, err, ErrUnknown, `did you mean "turn_gspo"?`)
}

// TestABuilderMustReturnALoss: an Objective without one has the loss ppo.
func TestABuilderMustReturnALoss(t *testing.T) {
	var r Registry
	require.NoError(t, r.Register("empty", func(Options) (Policy, error) { return nil, nil }))
	_, err := r.New("empty", DefaultOptions())
	require.EqualError(t, err, `loss: policy loss "empty": its factory returned nil`)
}

// scaled is a user's loss: the plain policy gradient times a factor.
type scaled struct{ factor float64 }

func (s scaled) Terms(t *Terms, b *Batch[float64]) error {
	for i, m := range b.Mask {
		if m {
			t.Loss[i] = -s.factor * b.Advantage[i] * b.LogProb[i]
			t.Slope[i] = -s.factor * b.Advantage[i]
		}
	}
	return nil
}

func TestUsersLossesAreBuiltByName(t *testing.T) {
	var r Registry
	build := func(o Options) (Policy, error) {
		f, ok := o.Extra["factor"].(float64)
		if !ok {
			return nil, setting("scaled: Extra[factor] = %v, want a number", o.Extra["factor"])
		}
		return scaled{f}, nil
	}
	require.NoError(t, r.Register("scaled", build))
	p, err := r.New("scaled", Options{Extra: map[string]any{"factor": 2.0}})
	require.NoError(t, err)
	b := randomBatch(1)
	near(t, "loss", mustEval(t, p, Aggregation{}, b).Loss, 2*mustEval(t, Reinforce{}, Aggregation{}, b).Loss, 1e-12)
	_, err = r.New("scaled", Options{})
	require.ErrorIs(t, err, ErrSetting)
	require.ErrorIs(t, r.Register("scaled", build), ErrDuplicate)
	require.Error(t, r.Register("", build))
	require.Error(t, r.Register("other", nil))
}
