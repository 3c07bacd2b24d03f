package vlm

import "vagen/policy/vlm/internal/device"

// regroup puts the live rows of flights together, in order, in a batch that has
// just room for them. What the flights have written goes home first, so that rows
// that stay behind are complete. It consumes the flights, also when it fails.
func regroup(from ...*flight) (*flight, error) {
	c := from[0].call
	f := &flight{call: c, session: &session{net: c.net}, gathered: true}
	defer func() {
		for _, g := range from {
			g.drop()
		}
	}()
	for _, g := range from {
		if err := g.flush(); err != nil {
			return nil, err
		}
		for _, row := range g.live() {
			f.seats, f.rows = append(f.seats, g.seats[row]), append(f.rows, g.seats[row].lane)
		}
		f.slots, f.used = max(f.slots, g.slots), max(f.used, g.used)
	}
	f.rows = append(f.rows, make([]*lane, rowBucket(len(f.seats))-len(f.seats))...)
	f.seats = append(f.seats, make([]*seat, len(f.rows)-len(f.seats))...)
	f.allow = make([]bool, len(f.rows)*f.slots)
	at := 0
	for _, g := range from {
		if err := f.take(g, at); err != nil {
			f.free()
			return nil, err
		}
		at += len(g.live())
		g.drop() // makes room for the next
	}
	if err := f.startRecent(c.recentTokens); err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

// take copies the prefixes of another flight's live rows to the rows from at on.
func (f *flight) take(g *flight, at int) error {
	own := &scope{dev: f.net.dev}
	defer own.free()
	index := make([]int32, len(f.rows))
	for row := range index {
		index[row] = -1
	}
	for i, row := range g.live() {
		index[at+i] = int32(row)
		copy(f.allow[(at+i)*f.slots:], g.allow[row*g.slots:(row+1)*g.slots])
	}
	in := append(append([]*device.Array{}, g.prefix...), f.prefix...)
	in = append(in, upload(own, index))
	if own.err != nil {
		return own.err
	}
	out, err := f.net.board(f.slots, f.prefix != nil).Run(in)
	if err != nil {
		return err
	}
	device.FreeAll(f.prefix...)
	f.prefix = out
	return nil
}

// flush moves what is in the recent stretch into the prefix, at the rows' homes,
// too.
func (f *flight) flush() error {
	if err := f.unload(); err != nil {
		return err
	}
	for _, home := range f.homes() {
		if err := home.flushRecent(); err != nil {
			return err
		}
	}
	return f.flushRecent()
}

// land brings the rows home at the end of their flight.
func (f *flight) land() error {
	defer f.drop()
	return f.unload()
}

// drop lets go of what the flight holds besides its rows' homes. It is nil-safe.
func (f *flight) drop() {
	if f == nil {
		return
	}
	f.seeds.Free()
	f.seeds = nil
	f.unmask()
	if f.gathered {
		f.free()
	}
}

// homes lists the homes of the rows of a gathered flight.
func (f *flight) homes() []*session {
	var out []*session
	for _, p := range f.seats {
		if f.gathered && p != nil && (len(out) == 0 || out[len(out)-1] != p.home) {
			out = append(out, p.home) // rows of a home stand together
		}
	}
	return out
}

// unload copies the recent stretch of a gathered flight to the rows' homes, whose
// own is empty.
func (f *flight) unload() error {
	if f.recentUsed == 0 {
		return nil
	}
	for _, home := range f.homes() {
		if err := f.unloadTo(home); err != nil {
			return err
		}
	}
	return nil
}

func (f *flight) unloadTo(home *session) error {
	own := &scope{dev: f.net.dev}
	defer own.free()
	index := make([]int32, len(home.rows))
	allow := make([]bool, len(home.rows)*f.recentLen)
	for row, p := range f.seats {
		if p != nil && p.home == home {
			index[p.row] = int32(row)
			copy(allow[p.row*f.recentLen:(p.row+1)*f.recentLen], f.recentAllow[row*f.recentLen:])
		}
	}
	in := append(append([]*device.Array{}, f.recent...), upload(own, index))
	if own.err != nil {
		return own.err
	}
	out, err := f.net.pick().Run(in)
	if err != nil {
		return err
	}
	device.FreeAll(home.recent...)
	home.recent, home.recentLen, home.recentUsed, home.recentAllow = out, f.recentLen, f.recentUsed, allow
	return nil
}
