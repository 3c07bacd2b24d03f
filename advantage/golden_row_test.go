package advantage

import (
	"testing"

	"vagen/internal/golden"
)

func TestGoldenGAE(t *testing.T) {
	const file = "algorithms/gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Attention = r.mask(t, "eos_mask")
		est := GAE{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: true}
		raw := est
		raw.Whiten = false
		r.compare(t, tally, est, raw)
	}
}

func TestGoldenMasked(t *testing.T) {
	const file = "algorithms/masked_gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.GAE = r.mask(t, "loss_mask")
		est := Masked{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), Whiten: true}
		raw := est
		raw.Whiten = false
		r.compare(t, tally, est, raw)
	}
}

func TestGoldenBiLevel(t *testing.T) {
	const file = "algorithms/bi_level_gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss, r.batch.TurnEnd = r.mask(t, "loss_mask"), r.mask(t, "reward_mask")
		est := BiLevel{Gamma: r.param(t, "gamma"), Lambda: r.param(t, "lam"), TurnGamma: r.param(t, "high_level_gamma"), Whiten: true}
		raw := est
		raw.Whiten = false
		r.compare(t, tally, est, raw)
	}
}

func TestGoldenTurnWise(t *testing.T) {
	const file = "algorithms/turn_wise_gae.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		r := record(t, c, "token_level_rewards")
		r.batch.Loss, r.batch.TurnEnd = r.mask(t, "loss_mask"), r.mask(t, "reward_mask")
		est := TurnWise{TurnGamma: r.param(t, "high_level_gamma"), Lambda: r.param(t, "lam"), Whiten: true}
		raw := est
		raw.Whiten = false
		r.compare(t, tally, est, raw)
	}
}

func TestGoldenGRPO(t *testing.T) {
	for _, f := range []struct{ file, mask string }{
		{"algorithms/grpo.json", "eos_mask"},
		{"algorithms/lite_grpo.json", "response_mask"},
	} {
		tally := golden.NewTally(t, f.file)
		for _, c := range golden.Cases(t, f.file) {
			r := record(t, c, "token_level_rewards")
			r.batch.Loss = r.mask(t, f.mask)
			r.batch.Group = ids(t, c.Inputs, "index")
			est := GRPO{Epsilon: r.param(t, "epsilon"), NormByStd: r.flag(t, "norm_adv_by_std_in_grpo", true)}
			r.compare(t, tally, est, nil)
		}
	}
}
