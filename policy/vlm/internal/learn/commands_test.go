package learn

import (
	"bytes"
	"encoding/gob"
	"image"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/processor"
)

// foreignLoss is a loss of another package.
type foreignLoss struct{ loss.Policy }

// TestLossesTravel: every loss arrives as it was.
func TestLossesTravel(t *testing.T) {
	travel := func(l loss.Policy) loss.Policy {
		var raw bytes.Buffer
		sent := &updateOrder{Call: LearnCall{Objective: policy.Objective{Policy: sentLoss(l)}}}
		require.NoError(t, gob.NewEncoder(&raw).Encode(&command{Update: sent}), "%T", l)
		var got command
		require.NoError(t, gob.NewDecoder(&raw).Decode(&got), "%T", l)
		return got.Update.Call.Objective.Policy
	}
	sampled := loss.Distill{Policy: loss.Reinforce{}, KL: loss.K1, Cap: 2}
	over := loss.Divergence{Form: loss.Tail, Choice: loss.Choice{By: loss.ByTeacher, K: 3}}
	all := []loss.Policy{nil, loss.PPO{Low: 0.2, High: math.Inf(1), Clamp: true}, sampled,
		loss.OffPolicyMask{Policy: loss.Reinforce{}, Delta: 0.1, FromSampling: true},
		loss.Taught{Policy: loss.DefaultPPO(), Distill: loss.Distill{Over: over}, Coef: 0.5}}
	for _, name := range loss.Builtin().Names() {
		l, err := loss.Builtin().New(name, loss.DefaultOptions())
		require.NoError(t, err)
		all = append(all, l)
	}
	for _, l := range all {
		require.True(t, sendable(l), "%T", l)
		require.Equal(t, l, travel(l))
	}
	own := foreignLoss{loss.DefaultPPO()}
	require.Equal(t, standIn{}, travel(own), "rank 0 evaluates a loss of another package")
	require.Equal(t, standIn{Choice: over.Choice}, travel(loss.Distill{Policy: own, Over: over}),
		"the other ranks compute the scores of the tokens that it compares")
	require.Equal(t, standIn{}, travel(loss.OffPolicyMask{Policy: own}))
	require.False(t, sendable(travel(own)))
}

func TestOrdersWithBadImagesAreRefused(t *testing.T) {
	table := &imageTable{}
	_, err := table.read(&command{Images: []sentImage{{Hash: make([]byte, 32), Width: 1000, Height: 1000,
		RGB: []byte{1}}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)
	_, err = table.read(&command{Images: []sentImage{{Hash: []byte{1}}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)
	_, err = table.read(&command{Refs: [][]int{{5}}})
	require.ErrorIs(t, err, nodes.ErrProtocol)

	good := policy.Image{Hash: [32]byte{1}, Image: image.NewGray(image.Rect(0, 0, 2, 2))}
	bad := policy.Image{Hash: [32]byte{2}, Image: (*image.NRGBA)(nil)}
	require.ErrorIs(t, table.write(&command{}, &policy.Rows{Images: [][]policy.Image{{good, bad}}}), processor.ErrImage)
	next := &command{}
	require.NoError(t, table.write(next, &policy.Rows{Images: [][]policy.Image{{good}}}))
	require.Len(t, next.Images, 1, "an image of an order that was not sent is sent again")
	require.True(t, next.Forget)
}
