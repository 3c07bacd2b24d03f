package queue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/mask"
	"vagen/rollout"
)

func init() { firstTransfer = 50 * time.Millisecond }

// forger sends messages as a worker does.
type forger struct {
	t     *testing.T
	f     *fixture
	batch string
}

func newForger(t *testing.T, f *fixture) *forger {
	t.Helper()
	f.deal(t)
	for name := range f.q.js.ObjectStoreNames(t.Context()).Name() {
		if name != f.q.names.settings {
			return &forger{t, f, strings.TrimPrefix(name, f.q.names.prefix)}
		}
	}
	t.Fatal("no batch")
	return nil
}

func (g *forger) send(places string, body []byte, header ...string) {
	g.t.Helper()
	m := nats.NewMsg(g.f.q.names.resultOf(g.batch))
	m.Header.Set(tasksHeader, places)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	m.Data = body
	_, err := g.f.q.js.PublishMsg(g.t.Context(), m)
	require.NoError(g.t, err)
}

// describe publishes the description of an object, without chunks.
func (g *forger) describe(name string, info jetstream.ObjectInfo) {
	g.t.Helper()
	info.Name, info.Bucket, info.Digest = name, g.f.q.names.bucket(g.batch), "SHA-256="+strings.Repeat("A", 43)+"="
	raw, err := json.Marshal(&info)
	require.NoError(g.t, err)
	subject := base64.URLEncoding.EncodeToString([]byte(name))
	_, err = g.f.q.js.Publish(g.t.Context(), "$O."+info.Bucket+".M."+subject, raw)
	require.NoError(g.t, err)
}

func (g *forger) until(what func() bool) {
	g.t.Helper()
	require.Eventually(g.t, what, patience, time.Millisecond, g.f.log.String())
}

// TestAForgedEndOfWorkersIsOneTryOfOneEpisode: it does not give episodes up before the leases of as
// many workers can have ended.
func TestAForgedEndOfWorkersIsOneTryOfOneEpisode(t *testing.T) {
	f := newFixture(t, nil)
	g := newForger(t, f)
	g.send("0/0", []byte("x"), faultHeader, faultDied)
	g.until(func() bool { return f.q.count.faults.Load() == 1 })
	g.send("0/1,1/0,2/0,3/0,4/0,5/0", []byte("x"), faultHeader, faultDied)
	g.until(func() bool { return f.q.count.invalid.Load() == 2 })
	require.Contains(t, f.log.String(), "it reports a failure of 6 tasks, must be one")
	require.Equal(t, int64(1), f.q.count.faults.Load())
	require.Zero(t, f.q.count.unusable.Load())
	require.Zero(t, f.q.count.died.Load())
}

// TestEndsOfWorkersAreBelievedWhenTheirLeasesCanHaveEnded, and not for tasks that an earlier process
// published.
func TestEndsOfWorkersAreBelievedWhenTheirLeasesCanHaveEnded(t *testing.T) {
	o := testOptions()
	all := time.Duration(o.Tries) * o.Lease
	d := &deal{q: &Queue{opts: o}, sent: []time.Time{time.Now().Add(-all), time.Now().Add(time.Minute - all), {}}}
	require.Equal(t, faultDied, d.believed(faultDied, place{0, 0}))
	require.Equal(t, faultFailed, d.believed(faultDied, place{1, 0}))
	require.Equal(t, faultFailed, d.believed(faultDied, place{2, 0}))
	require.Equal(t, "odd", d.believed("odd", place{1, 0}))
	require.Equal(t, 2.0, d.q.Gauges()["queue_invalid"])
}

// TestObjectsWithoutChunksAreRefusedAtOnce, of results and of images, and links: nothing waits for what
// never comes.
func TestObjectsWithoutChunksAreRefusedAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	g := newForger(t, f)
	g.describe("empty", jetstream.ObjectInfo{NUID: "N1", Size: 1 << 20, Chunks: 8})
	g.describe("none", jetstream.ObjectInfo{NUID: "*", Size: 1})
	link := &jetstream.ObjectMetaOptions{
		Link: &jetstream.ObjectLink{Bucket: g.f.q.names.bucket(g.batch), Name: "empty"},
	}
	g.describe("link", jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Opts: link}, NUID: "N2"})
	bucket, err := f.q.js.ObjectStore(t.Context(), f.q.names.bucket(g.batch))
	require.NoError(t, err)
	_, err = bucket.PutBytes(t.Context(), "whole", []byte("x"))
	require.NoError(t, err)
	d := &deal{q: f.q, batch: g.batch, bucket: bucket}
	within, cancel := context.WithTimeout(t.Context(), transferTimeout/4) // less than the second try waits
	defer cancel()
	for name, want := range map[string]string{
		"empty": "0 of its 8 chunks are there", "none": "0 of its 0 chunks are there", "link": "it is a link",
	} {
		_, err := d.object(within, name, maxResult)
		testkit.Error(t, err, errForged, want)
	}
	raw, err := d.object(t.Context(), "whole", maxResult)
	require.NoError(t, err)
	require.Equal(t, "x", string(raw))
	require.NoError(t, d.forged(t.Context(), "whole"))
	require.NoError(t, d.forged(t.Context(), "absent"), "which a worker may be writing")

	g.send("0/0", nil, objectHeader, "empty")
	g.until(func() bool { return f.q.count.invalid.Load() == 1 && f.q.count.faults.Load() == 1 })
}

// TestTurnsMayReturnToAnEarlierRow, as those of an agent with several conversations do.
func TestTurnsMayReturnToAnEarlierRow(t *testing.T) {
	e := rollout.Episode{Env: "agent", MaxTurns: 3}
	tr := &rollout.Trajectory{Episode: e, End: rollout.EndDone, Rows: make([]rollout.Row, 2)}
	for _, r := range []int{0, 1, 0} {
		row := &tr.Rows[r]
		require.NoError(t, row.AppendContext(mask.Observation, 1))
		require.NoError(t, row.AppendResponse(2))
		row.LogProbs = append(row.LogProbs, 0, -1)
		tr.Turns = append(tr.Turns, rollout.Turn{Row: r})
	}
	require.NoError(t, checkResult(tr, &e, nil))
	tr.Turns[2].Row = 1
	require.ErrorContains(t, checkResult(tr, &e, nil), "row 0: it has 2 responses for 1 turns")
}
