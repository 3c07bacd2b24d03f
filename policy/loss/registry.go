package loss

import (
	"fmt"
	"strings"

	"vagen/internal/byname"
)

// Options are the settings for building policy losses by name. Each loss uses its own and
// ignores the others. Start from [DefaultOptions]; a zero is used literally.
type Options struct {
	// ppo, gspo, turn_gspo, turn_ppo, cispo, clip_cov, luspo: below 1; gmpo: of the log-ratio; dppo: distance
	ClipLow  float64
	ClipHigh float64 // same, above 1
	DualClip float64 // ppo: largest factor on a negative advantage; dppo: largest weight; 0 for none

	TauPos, TauNeg float64 // sapo
	KL             KL      // luspo: a KL inside the loss, multiplied by the ratio of its row
	KLCoef         float64 // its weight
	Single

	Extra map[string]any // settings of losses registered by users
}

// Single has settings of single losses, with their names and meanings in configurations.
type Single struct {
	Clamp bool `yaml:"clamp_log_ratio" doc:"vanilla, m2po, opd: clamp a token's log-ratio to [-20, 20]; the full VAGEN system does not"`

	ClipCov      ClipCov   `yaml:",inline"` // without its clip range
	KLCov        KLCov     `yaml:",inline"`
	DRO          DRO       `yaml:",inline"`
	PrimeDPPO    PrimeDPPO `yaml:",inline"`
	IPOThreshold float64   `yaml:"ipo_threshold" range:"0,1e+12" doc:"ipo: largest change of a token's probability"`
	VESPO        VESPO     `yaml:",inline"`
	DeltaLow     float64   `yaml:"delta_low" range:"0,1e+12" doc:"dppo_skyrl: largest distance of a token whose advantage is negative"`
	DeltaHigh    float64   `yaml:"delta_high" range:"0,1e+12" doc:"dppo_skyrl: largest distance of a token whose advantage is positive"`
	DPPOType     string    `yaml:"dppo_type" oneof:"binary_tv binary_kl" doc:"dppo_skyrl: how a token's distance is measured: change of its probability, or KL"`
	M2Threshold  float64   `yaml:"m2_threshold" range:"0,1e+12" doc:"m2po: bound of the mean squared difference between log-probs at sampling and before the update; tokens that differ most are dropped until it holds"`
	DistillKL    string    `yaml:"distillation_loss_mode" doc:"opd: estimate of the KL to the teacher: k1 (kl), k2 (mse), k3 (low_var_kl) or abs of the sampled token, or forward_kl_topk of the topk tokens that are likeliest for the teacher"`
	DistillTopK  int       `yaml:"topk" count:"1" doc:"opd with forward_kl_topk: number of compared tokens"`
	DistillFloor float64   `yaml:"log_prob_min_clamp" range:"-1e+12,0" doc:"opd with forward_kl_topk: smaller log-probs are raised to this; 0 raises none"`
	DistillClamp float64   `yaml:"loss_max_clamp" range:"0,1e+12" doc:"opd: bound of the estimate of a token; 0 is none"`
	DistillLow   *float64  `yaml:"distillation_clip_ratio_low" range:"0,1" doc:"opd with use_policy_gradient: epsilon of the lower bound; null uses that of clip_ratio; verl has 0.2 beside any loss; stability.clip_schedule does not change it"`
	DistillHigh  *float64  `yaml:"distillation_clip_ratio_high" range:"0,1e+12" doc:"opd with use_policy_gradient: epsilon of the upper bound, as the lower one"`
	DistillPG    bool      `yaml:"use_policy_gradient" doc:"opd: take the negative estimate as the advantage of ppo; false minimises the estimate itself"`
	SDFTMode     string    `yaml:"distillation_mode" oneof:"full_logits topk_logits sampled_token forward_cross_entropy reverse_kl" doc:"sdft: compare the distributions over the whole vocabulary (full_logits) or over the distillation_topk tokens that were likeliest for the policy (topk_logits), or take the log-ratio of the sampled token; the last two are those of the tinker cookbook, over the tokens that are likeliest for the teacher"`
	SDFTAlpha    float64   `yaml:"distillation_alpha" range:"0,1" doc:"sdft with full_logits or topk_logits: 0 is KL(teacher, policy), 1 KL(policy, teacher), between them a mixture; beta of TRL's DistillationTrainer"`
	SDFTTopK     int       `yaml:"distillation_topk" count:"1" doc:"sdft: number of compared tokens; the tinker cookbook has 20"`
	SDFTTail     bool      `yaml:"distillation_add_tail" doc:"sdft with topk_logits: the other tokens together are one more; false divides by the sum of the compared ones"`
	SDFTCap      float64   `yaml:"distillation_is_clip" range:"0,1e+12" doc:"sdft: a token's loss is multiplied by its ratio to the policy before the update, at most this; 0: not multiplied"`
	LUSPODelta   float64   `yaml:"delta" range:"0,1e+12" doc:"luspo: bound of the ratio of a row; 0 is none"`

	// Any loss that reads advantages can be wrapped in an OffPolicyMask.
	MaskThreshold *float64 `yaml:"off_policy_mask_threshold" range:"0,1e+12" doc:"drop the tokens with negative advantage of rows whose log-probs have fallen by more than this since sampling, in the mean of the row; 0.5 is typical; null keeps all"`
	OPSMDelta     *float64 `yaml:"opsm_delta" range:"0,1e+12" doc:"drop the tokens with negative advantage of rows whose log-probs have fallen by more than this since the update began, in the mean of the row; slime's use_opsm has 1e-4; null keeps all"`

	// The same losses can be those of a Taught.
	DistillCoef float64 `yaml:"distillation_loss_coef" range:"0,1e+12" doc:"above 0 this many times the loss of opd, with its settings, is added to that of loss_mode, which reads advantages, and averaged with it: verl's distillation_loss with use_task_rewards, where it is 1; use_task_rewards: false is loss_mode opd"`
}

// DefaultOptions holds the settings of [DefaultPPO] and the defaults of the other losses.
func DefaultOptions() Options {
	ppo, sapo := DefaultPPO(), DefaultSAPO()
	return Options{
		ClipLow: ppo.Low, ClipHigh: ppo.High, DualClip: ppo.Dual, TauPos: sapo.TauPos, TauNeg: sapo.TauNeg,
		Single: Single{
			Clamp: ppo.Clamp, ClipCov: DefaultClipCov(), KLCov: DefaultKLCov(), DRO: DRO{Beta: 0.05},
			PrimeDPPO: PrimeDPPO{Low: 0.2, High: 0.2, AdvTau: 1, KLTau: 1e-3}, IPOThreshold: 0.1, VESPO: DefaultVESPO(),
			DeltaLow: 0.2, DeltaHigh: 0.2, DPPOType: "binary_tv", M2Threshold: 0.04,
			DistillKL: "k3", DistillTopK: 128, DistillFloor: -10, DistillClamp: 10, DistillPG: true,
			SDFTMode: "topk_logits", SDFTAlpha: 0.5, SDFTTopK: 100, SDFTCap: 2,
		},
	}
}

// Builder creates a policy loss from settings. It returns ErrSetting for settings that
// the loss would reject, so that a run fails before it starts.
type Builder func(Options) (Policy, error)

// kind is the kind of a registry's entries.
type kind struct{}

// table is in every registry.
type table = byname.Table[Builder, kind]

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "loss", Entry: "policy loss", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Registry finds policy losses by name. The zero value is empty and ready to
// use; [Builtin] returns one with the losses of this package. It is safe for
// concurrent use.
//
// Register(name, build, about...) adds a loss under a name, with a description for Describe; the error
// wraps ErrDuplicate when the name is taken. Names() returns the known names in alphabetical order.
// Describe(name) returns what the loss with this name does, "" if Register got no description; errors
// are those of New.
type Registry struct {
	table
}

// builtins are the losses of this package, but for those whose settings may contradict each other.
var builtins = []struct {
	names, about string
	build        func(Options) Policy
}{
	{"vanilla ppo", "PPO: the ratio of each token, with a dual clip", func(o Options) Policy { return o.ppo() }},
	{"gspo", "GSPO: the mean ratio of a row", func(o Options) Policy { return GSPO{o.ClipLow, o.ClipHigh} }},
	{"turn_gspo", "GSPO by turns: the mean ratio of a turn", func(o Options) Policy {
		return TurnGSPO{o.ClipLow, o.ClipHigh}
	}},
	{"turn_ppo", "PPO by turns: the product of the ratios of a turn", func(o Options) Policy {
		return TurnPPO{o.ClipLow, o.ClipHigh}
	}},
	{"cispo", "CISPO: clips the weight of an update, not the update", func(o Options) Policy {
		return CISPO{o.ClipLow, o.ClipHigh}
	}},
	{"sapo", "SAPO: a smooth gate in place of a clip", func(o Options) Policy { return SAPO{o.TauPos, o.TauNeg} }},
	{"gmpo geo_mean", "GMPO: log-ratios clipped inside the mean of a row", func(o Options) Policy {
		return GMPO{o.ClipLow, o.ClipHigh}
	}},
	{"clip_cov", "PPO that drops tokens whose updates lower the entropy most", func(o Options) Policy {
		o.ClipCov.Low, o.ClipCov.High = o.ClipLow, o.ClipHigh
		return o.ClipCov
	}},
	{"kl_cov", "penalises the tokens whose updates lower the entropy most", func(o Options) Policy { return o.KLCov }},
	{"reinforce gpg", "REINFORCE: nothing is clipped; for data of the current policy", func(Options) Policy {
		return Reinforce{}
	}},
	{"dppo_tv", "drops tokens whose probability has changed too far", func(o Options) Policy {
		return DPPO{Low: o.ClipLow, High: o.ClipHigh, Cap: o.DualClip}
	}},
	{"dppo_kl", "drops tokens whose distribution has changed too far", func(o Options) Policy {
		return DPPO{Low: o.ClipLow, High: o.ClipHigh, Cap: o.DualClip, KL: true}
	}},
	{"dppo_prime", "dppo_tv with a gradient of the ratio and a squared price, as in prime-rl", func(o Options) Policy {
		return o.PrimeDPPO
	}},
	{"ipo", "dppo_prime with one limit in both directions", func(o Options) Policy {
		p := o.PrimeDPPO
		p.Low, p.High, p.Symmetric = 0, o.IPOThreshold, true
		return p
	}},
	{"dro", "policy gradient with a squared price for leaving the old policy", func(o Options) Policy { return o.DRO }},
	{"vespo", "weighs rows by a smooth function of their joint ratio", func(o Options) Policy { return o.VESPO }},
	{"m2po", "PPO without the tokens that training and sampling disagree most about", func(o Options) Policy {
		return M2PO{PPO: o.ppo(), Threshold: o.M2Threshold}
	}},
	{"luspo", "GSPO with long rows at full weight", func(o Options) Policy {
		return LUSPO{o.ClipLow, o.ClipHigh, o.LUSPODelta, o.KL, o.KLCoef}
	}},
	{"opd", "learns from a teacher instead of from advantages, as distillation_loss of verl", func(o Options) Policy {
		return o.distillation()
	}},
	{"ref_kl", "learns from a teacher instead of from advantages, as opd of prime-rl", func(o Options) Policy {
		p := o.PrimeDPPO
		p.High, p.AdvTau, p.Falling = 0, 1, true
		return Distill{Policy: p, KL: K1}
	}},
}

// Builtin returns a new registry with the losses of this package.
func Builtin() *Registry {
	all := map[string]byname.Entry[Builder]{
		"dppo_skyrl": {About: "dppo_tv or dppo_kl with a gradient of the ratio to sampling, as in SkyRL",
			Value: Options.surrogate},
		"sdft": {About: "learns the distribution of a teacher instead of from advantages, as SDFT of TRL",
			Value: Options.selfDistillation},
	}
	for _, l := range builtins {
		for name := range strings.FieldsSeq(l.names) {
			all[name] = byname.Entry[Builder]{About: l.about, Value: func(o Options) (Policy, error) {
				return checked(l.build(o))
			}}
		}
	}
	r := new(Registry)
	byname.Fill(&r.table, all)
	return r
}

// checked returns a loss and the error of its settings, which is the same for an empty batch.
func checked(p Policy) (Policy, error) {
	return p, p.Terms(new(Terms), &Batch[float64]{Offsets: []int{0}})
}

func (o Options) ppo() PPO {
	return PPO{Low: o.ClipLow, High: o.ClipHigh, Dual: o.DualClip, Clamp: o.Clamp}
}

// surrogate is the loss dppo_skyrl.
func (o Options) surrogate() (Policy, error) {
	if o.DPPOType != "binary_tv" && o.DPPOType != "binary_kl" {
		return nil, setting("dppo_type is %q, want binary_tv or binary_kl", o.DPPOType)
	}
	return checked(DPPO{Low: o.DeltaLow, High: o.DeltaHigh, KL: o.DPPOType == "binary_kl", Surrogate: true})
}

// ForwardTopK is the Single.DistillKL that compares the tokens that are likeliest for the teacher.
const ForwardTopK = "forward_kl_topk"

// distillation is the loss opd.
func (o Options) distillation() Distill {
	p := Distill{KL: KL(o.DistillKL), Clamp: o.DistillClamp}
	if o.DistillKL == ForwardTopK {
		p.KL, p.Over = NoKL, Divergence{Choice: Choice{ByTeacher, o.DistillTopK}, Form: Raised, Floor: o.DistillFloor}
	}
	if o.DistillPG {
		clip := o.ppo()
		if o.DistillLow != nil {
			clip.Low = *o.DistillLow
		}
		if o.DistillHigh != nil {
			clip.High = *o.DistillHigh
		}
		p.Policy = clip
	}
	return p
}

// selfDistillation is the loss sdft.
func (o Options) selfDistillation() (Policy, error) {
	p := Distill{Cap: o.SDFTCap, Over: Divergence{Choice: Choice{ByStudent, o.SDFTTopK}, Form: Renormalised,
		Alpha: o.SDFTAlpha}}
	if o.SDFTTail && o.SDFTMode != "topk_logits" {
		return p, setting("distillation_add_tail is true, but distillation_mode is %q, want topk_logits", o.SDFTMode)
	}
	switch o.SDFTMode {
	case "full_logits":
		p.Over.Choice, p.Over.Form = Choice{By: WholeVocabulary}, Whole
	case "topk_logits":
		if o.SDFTTail {
			p.Over.Form = Tail
		}
	case "sampled_token":
		if o.SDFTAlpha != 1 {
			return p, setting("distillation_alpha is %v, want 1 with distillation_mode sampled_token", o.SDFTAlpha)
		}
		p.Over, p.KL, p.Policy = Divergence{}, K1, Reinforce{}
	case "forward_cross_entropy":
		p.Over = Divergence{Choice: Choice{ByTeacher, o.SDFTTopK}, Form: CrossEntropy}
	case "reverse_kl":
		p.Over.Choice.By, p.Over.Alpha = ByTeacher, 1
	default:
		return p, setting("distillation_mode is %q, want full_logits, topk_logits, sampled_token, forward_cross_entropy or reverse_kl", o.SDFTMode)
	}
	return checked(p)
}

// New builds the loss with this name. An unknown name gives ErrUnknown and the
// nearest known one.
func (r *Registry) New(name string, o Options) (Policy, error) {
	build, err := byname.Get(&r.table, name)
	if err != nil {
		return nil, err
	}
	p, err := byname.Made(build(o))
	if err == nil {
		p, err = o.masked(p)
	}
	if err == nil {
		p, err = o.taught(p)
	}
	if err != nil {
		return nil, fmt.Errorf("loss: policy loss %q: %w", name, err)
	}
	return p, nil
}
