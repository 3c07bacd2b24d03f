package loss

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRegistryBuildsWhatTheOptionsSay(t *testing.T) {
	o := DefaultOptions()
	o.ClipLow, o.ClipHigh, o.DualClip, o.DROBeta = 0.1, 0.3, 4, 0.7
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
		got, err := Builtin().New(name, o)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v, want %#v", name, got, err, want)
		}
	}
	if n := len(Builtin().Names()); n != 25 {
		t.Errorf("%d names, the table above has 25", n)
	}
}

func TestAnyLossCanBeMasked(t *testing.T) {
	o, delta := DefaultOptions(), 0.5
	o.MaskThreshold = &delta
	got, err := Builtin().New("reinforce", o)
	if want := (OffPolicyMask{Policy: Reinforce{}, Delta: 0.5, FromSampling: true}); err != nil || got != want {
		t.Errorf("got %#v, %v, want %#v", got, err, want)
	}
	if Local(got) || !Sampled(got) {
		t.Error("a mask of rows is local, or reads no log-probs at sampling")
	}
	o.OPSMDelta = &delta
	if _, err := Builtin().New("reinforce", o); !errors.Is(err, ErrSetting) {
		t.Errorf("two masks at once: %v", err)
	}
	o.OPSMDelta, o.KL = nil, K3
	_, err = Builtin().New("luspo", o)
	require.ErrorContains(t, err, "set use_bias_correction_kl to false")
	o.MaskThreshold, o.OPSMDelta = nil, &delta
	if got, err = Builtin().New("reinforce", o); err != nil || Sampled(got) {
		t.Errorf("a mask since the update began reads log-probs at sampling (%v)", err)
	}
}

// TestAnyLossCanHaveATeacherBesideIt: loss and gradients are sums, with rollout weights and one aggregation.
func TestAnyLossCanHaveATeacherBesideIt(t *testing.T) {
	o := DefaultOptions()
	for _, estimate := range []string{"k1", "forward_kl_topk"} {
		o.DistillKL, o.DistillTopK, o.DistillCoef = estimate, 3, 0
		teacher, err := Builtin().New("opd", o)
		require.NoError(t, err)
		for _, name := range Builtin().Names() {
			o.DistillCoef = 0
			p, err := Builtin().New(name, o)
			require.NoError(t, err)
			o.DistillCoef = 0.5
			both, err := Builtin().New(name, o)
			if Teacher(p) {
				require.ErrorContains(t, err, "learns from a teacher alone, want 0", name)
				continue
			}
			require.NoError(t, err, name)
			if !Teacher(both) || ChoiceOf(both) != ChoiceOf(teacher) || Local(both) != Local(p) || Sampled(both) != Sampled(p) {
				t.Errorf("%s: its methods are not those of its parts", name)
			}
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
		if (err == nil) != free {
			t.Errorf("%s with a negative clip range: %v", name, err)
		}
	}
	_, err := Builtin().New("turn-gspo", DefaultOptions())
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, `did you mean "turn_gspo"?`)
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
	if _, err := r.New("scaled", Options{}); !errors.Is(err, ErrSetting) {
		t.Errorf("a builder's error is lost: %v", err)
	}
	for name, build := range map[string]Builder{"scaled": build, "": build, "other": nil} {
		if err := r.Register(name, build); err == nil || errors.Is(err, ErrDuplicate) != (name == "scaled") {
			t.Errorf("registering %q again, empty or without builder: %v", name, err)
		}
	}
}
