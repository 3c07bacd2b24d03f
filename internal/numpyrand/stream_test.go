package numpyrand

// NewPCG64 returns the stream of the seed.
func NewPCG64(seed uint64) *PCG64 {
	var g PCG64
	g.Seed(seed)
	return &g
}
