#include "textflag.h"

// Registers: AX is how far rows are done, in bytes; CX where they end; R8 the header of a
// first column's slice, 24 bytes from the next one; R9 the number of columns.

// func combine(dst *float64, n int, start float64, a *float64, x *[]float64, columns int)
TEXT ·combine(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSD start+16(FP), Y15
	MOVQ a+24(FP), SI
	MOVQ x+32(FP), R8
	MOVQ columns+40(FP), R9
	SHLQ $3, CX
	XORQ AX, AX

combineRows:
	VMOVAPD Y15, Y0
	VMOVAPD Y15, Y1
	VMOVAPD Y15, Y2
	VMOVAPD Y15, Y3
	MOVQ R8, R10
	XORQ R11, R11

combineColumns:
	MOVQ (R10), R12
	VBROADCASTSD (SI)(R11*8), Y4
	VMULPD (R12)(AX*1), Y4, Y5
	VMULPD 32(R12)(AX*1), Y4, Y6
	VMULPD 64(R12)(AX*1), Y4, Y7
	VMULPD 96(R12)(AX*1), Y4, Y8
	VADDPD Y5, Y0, Y0
	VADDPD Y6, Y1, Y1
	VADDPD Y7, Y2, Y2
	VADDPD Y8, Y3, Y3
	ADDQ $24, R10
	INCQ R11
	CMPQ R11, R9
	JLT  combineColumns
	VMOVUPD Y0, (DI)(AX*1)
	VMOVUPD Y1, 32(DI)(AX*1)
	VMOVUPD Y2, 64(DI)(AX*1)
	VMOVUPD Y3, 96(DI)(AX*1)
	ADDQ $128, AX
	CMPQ AX, CX
	JLT  combineRows
	VZEROUPPER
	RET

// func addSquares(sums *float64, n int, x *[]float64, columns int)
TEXT ·addSquares(SB), NOSPLIT, $0-32
	MOVQ sums+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ x+16(FP), R8
	MOVQ columns+24(FP), R9
	SHLQ $3, CX
	XORQ AX, AX

squareRows:
	VMOVUPD (DI)(AX*1), Y0
	VMOVUPD 32(DI)(AX*1), Y1
	VMOVUPD 64(DI)(AX*1), Y2
	VMOVUPD 96(DI)(AX*1), Y3
	MOVQ R8, R10
	MOVQ R9, R11

squareColumns:
	MOVQ (R10), R12
	VMOVUPD (R12)(AX*1), Y5
	VMOVUPD 32(R12)(AX*1), Y6
	VMOVUPD 64(R12)(AX*1), Y7
	VMOVUPD 96(R12)(AX*1), Y8
	VMULPD Y5, Y5, Y5
	VMULPD Y6, Y6, Y6
	VMULPD Y7, Y7, Y7
	VMULPD Y8, Y8, Y8
	VADDPD Y5, Y0, Y0
	VADDPD Y6, Y1, Y1
	VADDPD Y7, Y2, Y2
	VADDPD Y8, Y3, Y3
	ADDQ $24, R10
	DECQ R11
	JNZ  squareColumns
	VMOVUPD Y0, (DI)(AX*1)
	VMOVUPD Y1, 32(DI)(AX*1)
	VMOVUPD Y2, 64(DI)(AX*1)
	VMOVUPD Y3, 96(DI)(AX*1)
	ADDQ $128, AX
	CMPQ AX, CX
	JLT  squareRows
	VZEROUPPER
	RET

// func multiply(dst, a, b *float64, n int)
TEXT ·multiply(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ n+24(FP), CX
	SHLQ $3, CX
	XORQ AX, AX

multiplyRows:
	VMOVUPD (SI)(AX*1), Y0
	VMOVUPD 32(SI)(AX*1), Y1
	VMULPD (R8)(AX*1), Y0, Y0
	VMULPD 32(R8)(AX*1), Y1, Y1
	VMOVUPD Y0, (DI)(AX*1)
	VMOVUPD Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  multiplyRows
	VZEROUPPER
	RET

// func clamp(dst, v *float64, n int, limit float64)
//
// The last operand of VMINPD and VMAXPD here is the one that is left where either is NaN.
TEXT ·clamp(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ v+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD limit+24(FP), Y2
	VXORPD Y3, Y3, Y3
	VSUBPD Y2, Y3, Y3
	SHLQ $3, CX
	XORQ AX, AX

clampRows:
	VMINPD (SI)(AX*1), Y2, Y0
	VMINPD 32(SI)(AX*1), Y2, Y1
	VMAXPD Y0, Y3, Y0
	VMAXPD Y1, Y3, Y1
	VMOVUPD Y0, (DI)(AX*1)
	VMOVUPD Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  clampRows
	VZEROUPPER
	RET

// func roots(squares *float64, n int)
TEXT ·roots(SB), NOSPLIT, $0-16
	MOVQ squares+0(FP), DI
	MOVQ n+8(FP), CX
	SHLQ $3, CX
	XORQ AX, AX

rootRows:
	VSQRTPD (DI)(AX*1), Y0
	VSQRTPD 32(DI)(AX*1), Y1
	VMOVUPD Y0, (DI)(AX*1)
	VMOVUPD Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  rootRows
	VZEROUPPER
	RET

// func cut(steps, x *[]float64, columns int, factor, length *float64, n int)
TEXT ·cut(SB), NOSPLIT, $0-48
	MOVQ steps+0(FP), DI
	MOVQ x+8(FP), R8
	MOVQ columns+16(FP), R9
	MOVQ factor+24(FP), SI
	MOVQ length+32(FP), BX
	MOVQ n+40(FP), CX
	SHLQ $3, CX
	XORQ AX, AX

cutRows:
	VMOVUPD (SI)(AX*1), Y0
	VMOVUPD 32(SI)(AX*1), Y1
	VMOVUPD (BX)(AX*1), Y2
	VMOVUPD 32(BX)(AX*1), Y3
	MOVQ R8, R10
	MOVQ DI, R13
	MOVQ R9, R11

cutColumns:
	MOVQ (R10), R12
	MOVQ (R13), DX
	VMULPD (R12)(AX*1), Y0, Y4
	VMULPD 32(R12)(AX*1), Y1, Y5
	VROUNDPD $11, Y4, Y4 // toward zero
	VROUNDPD $11, Y5, Y5
	VMOVUPD Y4, (DX)(AX*1)
	VMOVUPD Y5, 32(DX)(AX*1)
	VMULPD Y4, Y4, Y4
	VMULPD Y5, Y5, Y5
	VADDPD Y4, Y2, Y2
	VADDPD Y5, Y3, Y3
	ADDQ $24, R10
	ADDQ $24, R13
	DECQ R11
	JNZ  cutColumns
	VMOVUPD Y2, (BX)(AX*1)
	VMOVUPD Y3, 32(BX)(AX*1)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  cutRows
	VZEROUPPER
	RET

// func sumCut(x, factor *float64, n int) float64
TEXT ·sumCut(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ factor+8(FP), R8
	MOVQ n+16(FP), CX
	SHLQ $3, CX
	XORQ AX, AX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

sumCutRows:
	VMOVUPD (SI)(AX*1), Y4
	VMOVUPD 32(SI)(AX*1), Y5
	VMOVUPD 64(SI)(AX*1), Y6
	VMOVUPD 96(SI)(AX*1), Y7
	VMULPD (R8)(AX*1), Y4, Y4
	VMULPD 32(R8)(AX*1), Y5, Y5
	VMULPD 64(R8)(AX*1), Y6, Y6
	VMULPD 96(R8)(AX*1), Y7, Y7
	VROUNDPD $11, Y4, Y4
	VROUNDPD $11, Y5, Y5
	VROUNDPD $11, Y6, Y6
	VROUNDPD $11, Y7, Y7
	VADDPD Y4, Y0, Y0
	VADDPD Y5, Y1, Y1
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	ADDQ $128, AX
	CMPQ AX, CX
	JLT  sumCutRows
	VADDPD Y1, Y0, Y0
	VADDPD Y3, Y2, Y2
	VADDPD Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VHADDPD X0, X0, X0
	VZEROUPPER
	MOVSD X0, ret+24(FP)
	RET

// total leaves the sum of the four numbers of y in the lowest of x; t is scratch.
#define total(y, x, t) VEXTRACTF128 $1, y, t; VADDPD t, x, x; VHADDPD x, x, x

// func products(sums *[8]float64, columns *[6]*float64, n int)
TEXT ·products(SB), NOSPLIT, $0-24
	MOVQ sums+0(FP), DI
	MOVQ columns+8(FP), R8
	MOVQ n+16(FP), CX
	MOVQ (R8), SI
	MOVQ 8(R8), BX
	MOVQ 16(R8), R9
	MOVQ 24(R8), R10
	MOVQ 32(R8), R11
	MOVQ 40(R8), R12
	SHLQ $3, CX
	XORQ AX, AX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7

productRows:
	VMOVUPD (SI)(AX*1), Y8
	VMOVUPD (BX)(AX*1), Y9
	VMOVUPD (R9)(AX*1), Y10
	VMOVUPD (R10)(AX*1), Y11
	VMOVUPD (R11)(AX*1), Y12
	VMOVUPD (R12)(AX*1), Y13
	VFMADD231PD Y10, Y8, Y0
	VFMADD231PD Y11, Y8, Y1
	VFMADD231PD Y12, Y8, Y2
	VFMADD231PD Y13, Y8, Y3
	VFMADD231PD Y10, Y9, Y4
	VFMADD231PD Y11, Y9, Y5
	VFMADD231PD Y12, Y9, Y6
	VFMADD231PD Y13, Y9, Y7
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  productRows
	total(Y0, X0, X8)
	total(Y1, X1, X8)
	total(Y2, X2, X8)
	total(Y3, X3, X8)
	total(Y4, X4, X8)
	total(Y5, X5, X8)
	total(Y6, X6, X8)
	total(Y7, X7, X8)
	VZEROUPPER
	MOVSD X0, (DI)
	MOVSD X1, 8(DI)
	MOVSD X2, 16(DI)
	MOVSD X3, 24(DI)
	MOVSD X4, 32(DI)
	MOVSD X5, 40(DI)
	MOVSD X6, 48(DI)
	MOVSD X7, 56(DI)
	RET
