package queue

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

// identity is a pair of keys of NATS's decentralised authentication.
type identity struct {
	nkeys.KeyPair
	public string
}

func newIdentity(t *testing.T, create func() (nkeys.KeyPair, error)) identity {
	t.Helper()
	pair, err := create()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	return identity{pair, public}
}

// credentials writes a file of credentials for a new user of an account.
func credentials(t *testing.T, account identity, change func(*jwt.UserClaims)) string {
	t.Helper()
	user := newIdentity(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(user.public)
	if change != nil {
		change(claims)
	}
	token, err := claims.Encode(account)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	raw, err := jwt.FormatUserConfig(token, seed)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "user.creds")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	return file
}

// TestCredentialFilesLogIn: on a server whose users are signed by an account, a user with the
// documented permissions trains and plays. Expired, foreign and missing credentials are refused.
func TestCredentialFilesLogIn(t *testing.T) {
	operator, account, other := newIdentity(t, nkeys.CreateOperator), newIdentity(t, nkeys.CreateAccount),
		newIdentity(t, nkeys.CreateAccount)
	ac := jwt.NewAccountClaims(account.public)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	signed, err := ac.Encode(operator)
	require.NoError(t, err)
	accounts := &server.MemAccResolver{}
	require.NoError(t, accounts.Store(account.public, signed))
	oc := jwt.NewOperatorClaims(operator.public)
	system := newIdentity(t, nkeys.CreateAccount)
	oc.SystemAccount = system.public
	signed, err = jwt.NewAccountClaims(system.public).Encode(operator)
	require.NoError(t, err)
	require.NoError(t, accounts.Store(system.public, signed))
	s := serve(t, &server.Options{TrustedOperators: []*jwt.OperatorClaims{oc}, SystemAccount: system.public,
		AccountResolver: accounts})

	allowed := func(u *jwt.UserClaims) {
		u.Pub.Allow = jwt.StringList{"$JS.API.>", "$JS.ACK.>", "$O.>", "vagen.creds.>"}
		u.Sub.Allow = jwt.StringList{"_INBOX.>", "vagen.creds.>"}
	}
	f := newFixture(t, func(o *Options) {
		o.URL, o.Name, o.Creds = s.ClientURL(), "creds", credentials(t, account, allowed)
	})
	f.deal(t)
	w := f.workerOptions()
	w.Creds = credentials(t, account, allowed)
	f.work(t, w)
	f.finish(t)

	expired := credentials(t, account, func(u *jwt.UserClaims) { u.Expires = time.Now().Add(-time.Hour).Unix() })
	for about, file := range map[string]string{"expired": expired, "of another account": credentials(t, other, nil),
		"none": ""} {
		trainer := f.opts
		trainer.Creds = file
		_, err := Open(t.Context(), trainer)
		require.ErrorIs(t, err, ErrAccess, about)
		require.ErrorIs(t, Probe(t.Context(), trainer), ErrAccess, about)
		w.Creds = file
		require.ErrorIs(t, Work(t.Context(), w), ErrAccess, about)
	}
}
