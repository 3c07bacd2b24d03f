package read

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward"
)

func TestBoardsAreReadAsSeenFromThePlayer(t *testing.T) {
	want := []reward.Relation{reward.Relate("target", 1, 2), reward.Relate("hole", 0, 1), reward.Relate("hole", 1, 1)}
	for _, text := range []string{" P \t O \t _ \n _ \t O \t G ", "P O _\n_ O G", "\nPO_\r\n_OG\n\n"} {
		got, ok := Board(text, "frozenlake")
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	got, ok := Board("X G", "frozenlake")
	require.True(t, ok, "the player is in a hole")
	require.Equal(t, []reward.Relation{reward.Relate("target", 0, 1), reward.Relate("hole", 0, 0)}, got)
	for _, done := range []string{"_V", "_√"} {
		got, ok = Board(done, "frozenlake")
		require.True(t, ok)
		require.Equal(t, []reward.Relation{reward.Relate("target", 0, 0)}, got)
	}
	got, ok = Board("####\n#√S#\n#XO#", "sokoban")
	require.True(t, ok)
	require.Equal(t, []reward.Relation{reward.Relate("target", 0, -1), reward.Relate("target", 0, 0),
		reward.Relate("target", 1, 0),
		reward.Relate("box", 0, -1), reward.Relate("box", 1, -1)}, got)
}

func TestOtherTextsAreNotReadAsBoards(t *testing.T) {
	for _, text := range []string{"", "PO\nG", "_G", "PP", "P#G", "The goal is below P", strings.Repeat("_", 65) + "P",
		strings.Repeat("_\n", 65) + "P"} {
		_, ok := Board(text, "frozenlake")
		require.False(t, ok, text)
	}
	_, ok := Board("PO", "navigation")
	require.False(t, ok)
}

func FuzzBoard(f *testing.F) {
	f.Add("P O _\n_ O G")
	f.Add("#√S#\t\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range boards {
			if list, ok := Board(text, name); !ok && list != nil || len(list) > 2*maxSide*maxSide {
				t.Fatalf("%d relations, %v", len(list), ok)
			}
		}
	})
}

// TestSeveralNamesOfThePlayerStateOnePosition: not the one of them that is read last.
func TestSeveralNamesOfThePlayerStateOnePosition(t *testing.T) {
	for range 50 {
		got := Literal(reward.Claim{
			Env: "sokoban", Text: `{"you": [5, 5], "agent": null, "player": [2, 2], "box": [3, 2]}`,
		})
		require.Equal(t, []reward.Relation{reward.Relate("box", 1, 0)}, got)
	}
}
