package learn

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"image"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/processor"
)

// command is a call of rank 0 in which the others take part.
type command struct {
	Score   *ScoreCall
	Update  *updateOrder
	Restore bool // the state follows
	Tie     bool

	// The rows of Score and Update. Images are those that the rank does not have yet; Refs are
	// numbers of images by row, in the order in which they were received.
	Offsets []int
	Tokens  []int32
	Images  []sentImage
	Refs    [][]int
	Forget  bool // all images of earlier orders
}

type updateOrder struct {
	Call  LearnCall    // without Batch, with the sentLoss of its loss
	Batch policy.Batch // without rows
}

// sentImage is an image as processors read it.
type sentImage struct {
	Hash          []byte
	Width, Height int
	RGB           []byte
}

// imageTable are the images of earlier orders.
type imageTable struct {
	numbers map[[32]byte]int // on rank 0
	bytes   int
	images  []policy.Image // on the others
}

// maxImages limits the bytes of images that a rank keeps for later orders: updates train on rows
// that were scored before.
const maxImages = 256 << 20

// send sends a call to the other ranks, unless ctx has ended. Without them it does nothing.
func (s *Sets) send(ctx context.Context, o *command, rows *policy.Rows) error {
	if s.Peers == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if err := s.Peers.Err(); err != nil {
		return fmt.Errorf("vlm: the group of ranks has ended: %w", err)
	}
	if rows != nil {
		if err := s.images.write(o, rows); err != nil {
			return fmt.Errorf("vlm: %w", err)
		}
	}
	var raw bytes.Buffer
	if err := gob.NewEncoder(&raw).Encode(o); err != nil {
		return fmt.Errorf("vlm: order to other ranks: %w", err)
	}
	if err := s.Peers.Command(s.Peers.Whole(ctx), raw.Bytes()); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	return nil
}

// sendLearning sends a call of Learn to the other ranks.
func (s *Sets) sendLearning(ctx context.Context, c *LearnCall) error {
	if s.Ranks > 1 && s.Peers == nil {
		return fmt.Errorf("vlm: update: %w: Nodes.Count is %d, but the ranks are not connected: call Connect first",
			backend.ErrOption, s.Ranks)
	}
	if s.Peers == nil {
		return nil
	}
	u := &updateOrder{Call: *c}
	u.Call.Batch, u.Call.Objective.Policy = nil, nil
	if !c.Accumulate {
		return s.send(ctx, &command{Update: u}, nil)
	}
	u.Call.Objective.Policy = sentLoss(c.Objective.Policy)
	u.Batch = *c.Batch
	u.Batch.Rows = policy.Rows{}
	return s.send(ctx, &command{Update: u}, &c.Batch.Rows)
}

// write adds the rows to an order.
func (t *imageTable) write(o *command, rows *policy.Rows) (err error) {
	if t.numbers == nil || t.bytes > maxImages {
		t.numbers, t.bytes, o.Forget = map[[32]byte]int{}, 0, true
	}
	o.Offsets, o.Tokens = rows.Offsets, rows.Tokens
	for _, images := range rows.Images {
		refs := make([]int, 0, len(images))
		for _, im := range images {
			n, known := t.numbers[im.Hash]
			if !known {
				n = len(t.numbers)
				t.numbers[im.Hash] = n
				sent := sentImage{Hash: im.Hash[:]}
				if im.Image != nil { // otherwise the call fails on this rank, too, or has it in its cache
					if sent.RGB, err = processor.RGB(im.Image); err != nil {
						t.numbers = nil // the others do not get the images before this one
						return err
					}
					sent.Width, sent.Height = im.Image.Bounds().Dx(), im.Image.Bounds().Dy()
				}
				o.Images = append(o.Images, sent)
				t.bytes += len(sent.RGB)
			}
			refs = append(refs, n)
		}
		o.Refs = append(o.Refs, refs)
	}
	return nil
}

// read returns the rows of an order.
func (t *imageTable) read(o *command) (policy.Rows, error) {
	if o.Forget {
		t.images = nil
	}
	for _, s := range o.Images {
		var im policy.Image
		if copy(im.Hash[:], s.Hash) != len(im.Hash) || len(s.RGB) != 3*s.Width*s.Height {
			return policy.Rows{}, fmt.Errorf("an image of %d × %d has %d bytes: %w", s.Width, s.Height, len(s.RGB),
				nodes.ErrProtocol)
		}
		if len(s.RGB) > 0 {
			pixels := image.NewNRGBA(image.Rect(0, 0, s.Width, s.Height))
			for i := range len(s.RGB) / 3 {
				copy(pixels.Pix[4*i:], s.RGB[3*i:3*i+3])
				pixels.Pix[4*i+3] = 255
			}
			im.Image = pixels
		}
		t.images = append(t.images, im)
	}
	rows := policy.Rows{Offsets: o.Offsets, Tokens: o.Tokens}
	for _, refs := range o.Refs {
		images := make([]policy.Image, 0, len(refs))
		for _, n := range refs {
			if n < 0 || n >= len(t.images) {
				return rows, fmt.Errorf("image %d of %d: %w", n, len(t.images), nodes.ErrProtocol)
			}
			images = append(images, t.images[n])
		}
		rows.Images = append(rows.Images, images)
	}
	return rows, nil
}

// Follow executes the calls of rank 0 until one fails or the group ends.
func (s *Sets) Follow(ctx context.Context) error {
	for {
		raw, err := s.Peers.Next(ctx)
		if err != nil {
			return err
		}
		var o command
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&o); err != nil {
			return fmt.Errorf("order of rank 0: %w: %w", nodes.ErrProtocol, err)
		}
		if err := s.obey(ctx, &o); err != nil {
			return err
		}
	}
}

func (s *Sets) obey(ctx context.Context, o *command) error {
	rows, err := s.images.read(o)
	if err != nil {
		return err
	}
	switch {
	case o.Score != nil:
		o.Score.Rows = &rows
		var leaves [][]*net.Pack
		if leaves, err = s.Packer(s.Net).Leaves(&rows, o.Score.Want); err == nil {
			_, err = s.score(ctx, o.Score, leaves)
		}
	case o.Update != nil:
		u := o.Update
		u.Batch.Rows, u.Call.Batch = rows, &u.Batch
		_, err = s.learn(ctx, &u.Call)
	case o.Restore:
		s.dropGradients()
		err = s.shareState(ctx)
	case o.Tie:
		err = s.tie(ctx)
	default:
		err = fmt.Errorf("an order of rank 0 is empty: %w", nodes.ErrProtocol)
	}
	return err
}

// shareState replaces the weights that checkpoints contain, and the moments, of all ranks by those of
// rank 0.
func (s *Sets) shareState(ctx context.Context) error {
	if s.Peers == nil {
		return nil
	}
	for _, l := range []*Learner{s.Actor, s.Critic} {
		if l == nil {
			continue
		}
		err := s.Peers.Broadcast(ctx, l.SendState, func(ctx context.Context, from *nodes.Link) error {
			return l.OnDevices(true, func() error { return l.ReceiveState(ctx, from) })
		})
		if err != nil {
			return fmt.Errorf("sharing weights and moments with all ranks: %w", err)
		}
	}
	return nil
}
