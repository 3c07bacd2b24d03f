package learn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// TestRanksGiveTheBytesOfOneProcess plays, scores and trains with PPO and with a loss over whole rows
// in one process and on several ranks, with all weights, adapters, and a frozen tower.
func TestRanksGiveTheBytesOfOneProcess(t *testing.T) {
	t.Parallel()
	for name, shapes := range map[string][][2]int{ // ranks, devices of each
		"critic and reference": {{2, 1}, {2, 2}},
		"adapters":             {{2, 1}, {4, 1}},
		"frozen tower":         {{4, 2}},
		"rows":                 {{8, 1}},
		"part for each device": {{2, 1}},
		"delta nets, adapters": {{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := deviceFolder(t, name)
			train := func(m *Model) (out lived, state map[string]string) {
				m.Train(t, 1)
				require.NoError(t, m.Sets.Tie(t.Context()))
				saved := m.Saved(t)
				m.Train(t, 1) // Restore must replace this state
				require.NoError(t, m.Restore(t.Context(), saved))
				live(t, m, 3, &out)
				return out, m.StateOf(t)
			}
			one := deviceOptions[name]
			parts := name == "part for each device"
			if one.SameBytes = !parts; parts {
				one.PartPerDevice, one.Devices = true, 2
			}
			m := Open(t, dir, one)
			want, state := train(m)
			for _, shape := range shapes {
				o := deviceOptions[name]
				o.Devices, o.PartPerDevice = shape[1], parts
				o.ShardWeights = shape[1] > 1 && name == "critic and reference"
				leader, others := lead(t, dir, o, shape[0])
				got, now := train(leader)
				require.Equal(t, want, got, "%v ranks and devices", shape)
				require.Equal(t, state, now, "%v ranks and devices", shape)
				e := &leader.Sets.Exchange
				share, wait := math.Float64frombits(e.Share.Load()), math.Float64frombits(e.Wait.Load())
				require.Positive(t, e.Sent.Load())
				require.Positive(t, share)
				require.Positive(t, wait)
				require.Less(t, share+wait, 1.0, "they do not count the same time")
				require.NoError(t, leader.Sets.Peers.Close())
				for i, r := range others {
					require.NoError(t, <-r.Ended)
					require.Equal(t, state, r.State, "rank %d of %v", i+1, shape)
				}
			}
		})
	}
}

// TestBadRowsDoNotEndTheGroup: rank 0 refuses them before the others get them.
func TestBadRowsDoNotEndTheGroup(t *testing.T) {
	leader, others := lead(t, Folder(t, model.Qwen3, nil), Options{}, 2)
	score := func(tokens ...int32) error {
		rows, want := &policy.Rows{Offsets: []int{0, 3}, Tokens: tokens}, Trues(len(tokens))
		_, err := leader.Score(t.Context(), rows, want, policy.ScoreRequest{LogProbs: true}, 1)
		return err
	}
	require.ErrorContains(t, score(3, 4), "row offsets must go from 0 to the number of tokens, 2")
	require.ErrorContains(t, score(3, -4, 5), "row 0: token 1 has id -4")
	require.NoError(t, score(3, 4, 5))
	require.NoError(t, leader.Sets.Peers.Close())
	require.NoError(t, <-others[0].Ended)
}
