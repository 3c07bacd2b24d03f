package learn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
	"vagen/policy/vlm/internal/weights"
)

// maxGathered limits the bytes of scores and slopes that a rank receives from another.
const maxGathered = 4 << 30

// gatherScores completes the outputs at the tokens of all leaves by those of the other ranks.
func (l *Learner) gatherScores(ctx context.Context, leaves [][]*net.Pack, h *model.Head, out *net.Scored) error {
	g := l.Peers
	if g == nil {
		return nil
	}
	id, count := g.ID(), g.Nodes()
	// visit calls f for every number of a rank's leaves.
	visit := func(node int, f func(x *float32)) {
		from, to := tree.Span(node, count, len(leaves))
		for _, p := range net.Flat(leaves[from:to]) {
			for _, at := range p.Source {
				out.Each(h, at, f)
			}
		}
	}
	var own []byte
	visit(id, func(x *float32) { own = binary.LittleEndian.AppendUint32(own, math.Float32bits(*x)) })
	all, err := g.Gather(ctx, own, maxGathered)
	if err != nil {
		return fmt.Errorf("vlm: scores of all ranks: %w", err)
	}
	for node, raw := range all {
		if node == id {
			continue
		}
		n := 0
		visit(node, func(*float32) { n += 4 })
		if len(raw) != n {
			return fmt.Errorf("vlm: scores of rank %d: %d bytes, expected %d: %w", node, len(raw), n, nodes.ErrProtocol)
		}
		visit(node, func(x *float32) { *x, raw = math.Float32frombits(binary.LittleEndian.Uint32(raw)), raw[4:] })
	}
	return nil
}

// place of a trained array's sum: its group, its index among the group's trained parameters, the
// device that owns it on every rank, and the rank that sums it.
type sumPlace struct{ group, i, device, node int }

// sumPlaces lists the trained arrays.
func (t *TreeStep) sumPlaces(count int) []sumPlace {
	var out []sumPlace
	var sizes []int
	for group, owners := range t.owners {
		trained := t.Weights.Groups[group].Trained()
		for i, d := range owners {
			out = append(out, sumPlace{group: group, i: i, device: d})
			sizes = append(sizes, t.Weights.Groups[group].Params[trained[i]].Size())
		}
	}
	for k, node := range tree.Owners(sizes, count) {
		out[k].node = node
	}
	return out
}

// exchangeNodes sums the ranks' sums: by recursive halving, as the devices of a rank do, and then
// the finished sums are copied back in the reverse order. Afterwards the owner of each array has its
// gradient on every rank.
func (t *TreeStep) exchangeNodes(ctx context.Context) error {
	if t.Peers == nil {
		return nil
	}
	defer t.timed(time.Now())
	id, count := t.Peers.ID(), t.Peers.Nodes()
	places := t.sumPlaces(count)
	rounds := tree.Rounds(count)
	for _, distance := range rounds {
		keep, give := t.halves(places, id, distance)
		if err := t.swap(ctx, id^distance, give, keep, t.addSum, true); err != nil {
			return err
		}
	}
	for _, distance := range slices.Backward(rounds) {
		have, lack := t.halves(places, id, distance)
		if err := t.swap(ctx, id^distance, have, lack, t.setSum, false); err != nil {
			return err
		}
	}
	return nil
}

// halves divides the arrays that a rank sums with its partner at a distance: into those whose
// sum this rank has afterwards, and those of the partner.
func (t *TreeStep) halves(places []sumPlace, id, distance int) (own, partners []sumPlace) {
	for _, p := range places {
		switch {
		case tree.Receives(id, p.node, distance):
			own = append(own, p)
		case tree.Receives(id^distance, p.node, distance):
			partners = append(partners, p)
		}
	}
	return own, partners
}

func (t *TreeStep) sum(p sumPlace) **device.Array { return &t.Sums[p.device][p.group][p.i] }

// swap sends sums to another rank, and calls f with those that it receives.
func (t *TreeStep) swap(ctx context.Context, partner int, give, get []sumPlace, f func(sumPlace, *device.Array) error, consume bool) error {
	send := func(ctx context.Context, l *nodes.Link) error {
		there := make([]byte, len(give)) // 1 where there is a sum
		for k, p := range give {
			if *t.sum(p) != nil {
				there[k] = 1
			}
		}
		if err := l.Send(ctx, there); err != nil {
			return err
		}
		for _, p := range give {
			a := t.sum(p)
			if *a == nil {
				continue
			}
			x, err := device.ReadNew[float32](*a)
			if err != nil {
				return err
			}
			if err := l.SendFloats(ctx, x); err != nil {
				return err
			}
			if consume {
				(*a).Free()
				*a = nil
			}
		}
		return nil
	}
	receive := func(ctx context.Context, l *nodes.Link) error {
		there, err := l.Receive(ctx, int64(len(get)))
		if err != nil {
			return err
		}
		if len(there) != len(get) {
			return fmt.Errorf("rank %d sends %d sums, expected %d: %w", partner, len(there), len(get), nodes.ErrProtocol)
		}
		for k, p := range get {
			if there[k] == 0 {
				continue
			}
			param := t.Weights.Groups[p.group].Params[t.Weights.Groups[p.group].Trained()[p.i]]
			x := make([]float32, param.Size())
			if err := l.ReceiveFloats(ctx, x); err != nil {
				return err
			}
			a, err := device.Put(t.Replicas[p.device].Net.Dev, x, param.Dims...)
			if err != nil {
				return err
			}
			t.own(p.device, []*device.Array{a})
			if err := f(p, a); err != nil {
				return err
			}
		}
		return nil
	}
	return t.Peers.Swap(ctx, partner, send, receive)
}

// addSum adds a partner's sum, one array at a time as in exchange.
func (t *TreeStep) addSum(p sumPlace, a *device.Array) error {
	return t.addGroup(p.device, t.Sums[p.device][p.group][p.i:p.i+1], []*device.Array{a})
}

func (t *TreeStep) setSum(p sumPlace, a *device.Array) error {
	*t.sum(p) = a
	return nil
}

// agree returns an error that wraps ErrDiverged unless all ranks have the same norm and the same
// weights. Weights are compared exactly, but of one group in each step, in turn.
func (t *TreeStep) agree(ctx context.Context, norm float64, skipped bool) error {
	if t.Peers == nil {
		return nil
	}
	start, waited := time.Now(), t.Peers.Waited()
	defer func() { t.timed(start.Add(t.Peers.Waited() - waited)) }() // what is waited is not exchange
	h := sha256.New()
	group := t.Adam.Steps % len(t.Weights.Groups)
	if err := t.Replicas[0].Weights.Digest(h, group, weights.IsTrained); err != nil {
		return err
	}
	own := binary.LittleEndian.AppendUint64(nil, math.Float64bits(norm))
	own = binary.LittleEndian.AppendUint64(own, uint64(t.Adam.Steps))
	own = h.Sum(own)
	all, err := t.Peers.Gather(ctx, own, int64(len(own)))
	if err != nil {
		return fmt.Errorf("vlm: comparing the ranks: %w", err)
	}
	for node, theirs := range all {
		switch {
		case len(theirs) != len(own):
			return fmt.Errorf("vlm: comparing the ranks: %d bytes of rank %d: %w", len(theirs), node, nodes.ErrProtocol)
		case !bytes.Equal(theirs[:16], own[:16]):
			return fmt.Errorf("vlm: %w: the norm of the gradients is %v after %d steps on rank %d and %v after %d on rank %d (skipped: %v)",
				ErrDiverged, norm, t.Adam.Steps, t.Peers.ID(), math.Float64frombits(binary.LittleEndian.Uint64(theirs)),
				binary.LittleEndian.Uint64(theirs[8:]), node, skipped)
		case !bytes.Equal(theirs[16:], own[16:]):
			return fmt.Errorf("vlm: %w: after %d steps, %s has other weights on rank %d than on rank %d", ErrDiverged,
				t.Adam.Steps, t.Weights.Groups[group].Name, t.Peers.ID(), node)
		}
	}
	return nil
}
