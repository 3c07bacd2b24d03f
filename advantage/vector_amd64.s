//go:build !purego

#include "textflag.h"

// Where the fields of scan are.
#define scan_gamma 0
#define scan_shifted 8
#define scan_double 40
#define scan_carried 48
#define scan_next 80
#define scan_acc 88
#define scan_shift 96
#define scan_s1 104
#define scan_s2 136

// func blocksVector(k *scan, r, v, adv, ret *float32, n int)
//
// A lane of a register belongs to a token of the block. The blocks are taken
// from the last to the first; CX is where the block begins, in bytes. The deltas
// of a block are made while the block after it is worked on: each step of a
// block waits for the one before it, and two blocks wait less than one.
TEXT ·blocksVector(SB), NOSPLIT, $0-48
	MOVQ k+0(FP), AX
	MOVQ r+8(FP), SI
	MOVQ v+16(FP), DI
	MOVQ adv+24(FP), R8
	MOVQ ret+32(FP), R9
	MOVQ n+40(FP), CX
	SHLQ $2, CX

	VBROADCASTSD scan_acc(AX), Y5   // A(4) in all lanes
	VBROADCASTSD scan_gamma(AX), Y7
	VMOVUPD      scan_shifted(AX), Y8
	VBROADCASTSD scan_double(AX), Y9
	VBROADCASTSD scan_carried(AX), Y10 // x⁴
	VMOVUPD      scan_carried(AX), Y11
	VBROADCASTSD scan_shift(AX), Y12
	VMOVUPD      scan_s1(AX), Y13
	VMOVUPD      scan_s2(AX), Y14

	SUBQ $16, CX

	VCVTPS2PD    (SI)(CX*1), Y6  // r
	VCVTPS2PD    (DI)(CX*1), Y15 // v
	VBROADCASTSD scan_next(AX), Y0
	VPERMPD      $0x39, Y15, Y4
	VBLENDPD     $8, Y0, Y4, Y4  // v of the following token
	VFMADD231PD  Y7, Y4, Y6
	VSUBPD       Y15, Y6, Y6     // e

loop:
	VMOVAPD Y6, Y0
	VMOVAPD Y15, Y1
	SUBQ    $16, CX
	JLT     finish

	VCVTPS2PD   (SI)(CX*1), Y6
	VCVTPS2PD   (DI)(CX*1), Y15
	VCVTPS2PD   4(DI)(CX*1), Y4
	VFMADD231PD Y7, Y4, Y6
	VSUBPD      Y15, Y6, Y6

finish:
	VPERMPD     $0x39, Y0, Y2     // e(1), e(2), e(3), and e(0), which counts 0
	VFMADD231PD Y8, Y2, Y0        // f
	VPERM2F128  $0x81, Y0, Y0, Y2 // f(2), f(3), 0, 0
	VFMADD231PD Y9, Y2, Y0        // g

	VPERMPD     $0, Y0, Y3
	VFMADD231PD Y11, Y5, Y0 // A
	VFMADD213PD Y3, Y10, Y5 // A(0) in all lanes, for the block before

	VCVTPD2PSY Y0, X2
	VMOVUPS    X2, 16(R8)(CX*1)
	VADDPD     Y1, Y0, Y1
	VCVTPD2PSY Y1, X1
	VMOVUPS    X1, 16(R9)(CX*1)

	VSUBPD      Y12, Y0, Y0
	VADDPD      Y0, Y13, Y13
	VFMADD231PD Y0, Y0, Y14

	TESTQ CX, CX
	JGE   loop

	VMOVSD  X5, scan_acc(AX)
	VMOVUPD Y13, scan_s1(AX)
	VMOVUPD Y14, scan_s2(AX)
	VZEROUPPER
	RET

// func scaleVector(dst, x *float32, n int, shift, scale float64)
TEXT ·scaleVector(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	SHLQ $2, CX

	VBROADCASTSD shift+24(FP), Y2
	VBROADCASTSD scale+32(FP), Y3

	ADDQ CX, SI
	ADDQ CX, DI
	NEGQ CX

scaling:
	VCVTPS2PD  (SI)(CX*1), Y0
	VCVTPS2PD  16(SI)(CX*1), Y1
	VSUBPD     Y2, Y0, Y0
	VSUBPD     Y2, Y1, Y1
	VMULPD     Y3, Y0, Y0
	VMULPD     Y3, Y1, Y1
	VCVTPD2PSY Y0, X0
	VCVTPD2PSY Y1, X1
	VMOVUPS    X0, (DI)(CX*1)
	VMOVUPS    X1, 16(DI)(CX*1)
	ADDQ       $32, CX
	JLT        scaling

	VZEROUPPER
	RET

// func scaleWhereVector(x *float32, mask *bool, n int, shift, scale float64)
//
// A byte of the mask becomes 32 bits of ones or none, which cut out the result.
TEXT ·scaleWhereVector(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), DI
	MOVQ mask+8(FP), SI
	MOVQ n+16(FP), CX

	VBROADCASTSD shift+24(FP), Y2
	VBROADCASTSD scale+32(FP), Y3
	VPXOR        Y5, Y5, Y5

	LEAQ (DI)(CX*4), DI
	ADDQ CX, SI
	NEGQ CX

cutting:
	VCVTPS2PD   (DI)(CX*4), Y0
	VCVTPS2PD   16(DI)(CX*4), Y1
	VPMOVZXBD   (SI)(CX*1), Y4
	VSUBPD      Y2, Y0, Y0
	VSUBPD      Y2, Y1, Y1
	VMULPD      Y3, Y0, Y0
	VMULPD      Y3, Y1, Y1
	VCVTPD2PSY  Y0, X0
	VCVTPD2PSY  Y1, X1
	VINSERTF128 $1, X1, Y0, Y0
	VPSUBD      Y4, Y5, Y4
	VPAND       Y4, Y0, Y0
	VMOVUPS     Y0, (DI)(CX*4)
	ADDQ        $8, CX
	JLT         cutting

	VZEROUPPER
	RET

// func sumVector(x *float32, n int, strands *[8]float64)
TEXT ·sumVector(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ strands+16(FP), DI
	SHLQ $2, CX
	ADDQ CX, SI
	NEGQ CX

	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

summing:
	VCVTPS2PD (SI)(CX*1), Y0
	VCVTPS2PD 16(SI)(CX*1), Y1
	VADDPD    Y0, Y2, Y2
	VADDPD    Y1, Y3, Y3
	ADDQ      $32, CX
	JLT       summing

	VMOVUPD Y2, (DI)
	VMOVUPD Y3, 32(DI)
	VZEROUPPER
	RET

// func finiteVector(x *float32, n int) bool
//
// x − x is 0 for what is finite and NaN for the rest, which every sum keeps.
TEXT ·finiteVector(SB), NOSPLIT, $0-17
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	SHLQ $2, CX
	ADDQ CX, SI
	NEGQ CX

	VXORPS Y2, Y2, Y2

looking:
	VMOVUPS (SI)(CX*1), Y0
	VSUBPS  Y0, Y0, Y0
	VADDPS  Y0, Y2, Y2
	ADDQ    $32, CX
	JLT     looking

	VCMPPS    $3, Y2, Y2, Y0 // NaN?
	VMOVMSKPS Y0, AX
	TESTL     AX, AX
	SETEQ     ret+16(FP)
	VZEROUPPER
	RET

// func prepareVector(r, v, adv, returns *float32, n int, unset float32) bool
//
// From the last to the first, as the recursions go: memory that is read in one
// direction all the way arrives in time.
TEXT ·prepareVector(SB), NOSPLIT, $0-49
	MOVQ r+0(FP), SI
	MOVQ v+8(FP), DI
	MOVQ adv+16(FP), R8
	MOVQ returns+24(FP), R9
	MOVQ n+32(FP), CX
	SHLQ $2, CX
	SUBQ $32, CX

	VXORPS       Y2, Y2, Y2
	VXORPS       Y3, Y3, Y3
	VXORPS       Y4, Y4, Y4
	VBROADCASTSS unset+40(FP), Y5

preparing:
	VMOVUPS (SI)(CX*1), Y0
	VMOVUPS (DI)(CX*1), Y1
	VSUBPS  Y0, Y0, Y0
	VSUBPS  Y1, Y1, Y1
	VADDPS  Y0, Y2, Y2
	VADDPS  Y1, Y3, Y3
	VMOVUPS Y4, (R8)(CX*1)
	VMOVUPS Y5, (R9)(CX*1)
	SUBQ    $32, CX
	JGE     preparing

	VADDPS    Y2, Y3, Y2
	VCMPPS    $3, Y2, Y2, Y0 // NaN?
	VMOVMSKPS Y0, AX
	TESTL     AX, AX
	SETEQ     ret+48(FP)
	VZEROUPPER
	RET
