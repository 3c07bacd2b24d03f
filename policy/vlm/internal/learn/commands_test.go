package learn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/nodes"
)

// foreignLoss is a loss of another package.
type foreignLoss struct{ loss.Policy }

// TestLossesTravel: every loss arrives as it was.
func TestLossesTravel(t *testing.T) {
	for _, l := range []loss.Policy{
		nil, loss.Reinforce{}, loss.PPO{Low: 0.2, High: math.Inf(1), Clamp: true}, loss.GSPO{Low: 0.1, High: 3},
		loss.DefaultPPO(),
	} {
		sent, err := sendLoss(l)
		require.NoError(t, err)
		got, err := sent.Policy()
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	sent, err := sendLoss(foreignLoss{loss.DefaultPPO()})
	require.NoError(t, err)
	got, err := sent.Policy()
	require.NoError(t, err)
	require.Equal(t, onRank0{}, got, "rank 0 evaluates a loss of another package")
	_, err = (&sentLoss{Kind: "os.File"}).Policy()
	require.ErrorIs(t, err, nodes.ErrProtocol)
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
}
