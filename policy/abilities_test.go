package policy_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
)

// logged is a wrapper of another program: it passes on what the learner can do by one method.
type logged struct {
	policy.Learner
	calls int
}

func (l *logged) Generate(ctx context.Context, p []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	l.calls++
	return l.Learner.Generate(ctx, p, s)
}

func (l *logged) Unwrap() policy.Policy { return l.Learner }

// TestAWrapperPassesOnAbilitiesByUnwrap, through several wrappers; its own come first. Without
// Unwrap they are lost.
func TestAWrapperPassesOnAbilitiesByUnwrap(t *testing.T) {
	b := traintest.Guesser()
	metered, _ := policy.Meter(&logged{Learner: b})
	restorer, ok := policy.As[policy.Restorer](metered)
	require.True(t, ok)
	require.Same(t, b, restorer)
	_, ok = policy.As[policy.MetricsReporter](metered)
	require.False(t, ok, "the learner has no gauges")
	learner, ok := policy.As[policy.Learner](metered)
	require.True(t, ok)
	require.IsType(t, &logged{}, learner)
	_, ok = policy.As[policy.Restorer](struct{ policy.Learner }{b})
	require.False(t, ok)
	_, ok = policy.As[policy.Counter](nil)
	require.False(t, ok)
}

// TestTheTableOfAbilitiesIsComplete, so that the tests of wrappers are.
func TestTheTableOfAbilitiesIsComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "abilities.go", nil, 0)
	require.NoError(t, err)
	var want, got []string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		_, isInterface := spec.Type.(*ast.InterfaceType)
		if name := spec.Name.Name; isInterface && name != "Unwrapper" && name != "Snapshot" && name != "PolicySnapshot" {
			want = append(want, name)
		}
	}
	for _, a := range traintest.Abilities {
		got = append(got, a.Name())
	}
	require.ElementsMatch(t, want, got)
	require.Empty(t, traintest.Lost(reflect.TypeFor[*logged](), reflect.TypeFor[*traintest.Bandit]()))
	require.NotEmpty(t, traintest.Lost(reflect.TypeFor[struct{ policy.Learner }](), reflect.TypeFor[*traintest.Bandit]()))
}
