//go:build !amd64

package simd

// On other processors the callers do all rows one by one.

func combineLanes([]float64, float64, []float64, [][]float64) int { return 0 }

func addSquaresLanes([]float64, [][]float64) int { return 0 }

func multiplyLanes(_, _, _ []float64) int { return 0 }

func clampLanes(_, _ []float64, _ float64) int { return 0 }

func rootsLanes([]float64) int { return 0 }

func cutLanes(_, _ [][]float64, _, _ []float64) int { return 0 }

func sumCutLanes(_, _ []float64) (int, int64) { return 0, 0 }

func addProductsLanes([]int64, [][]float64, int) int { return 0 }
