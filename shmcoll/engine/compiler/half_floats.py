"""Conversions of float16 for x86-64 processors without F16C.

For these processors LLVM calls two functions of libgcc, by these names. The loader does not find them in every process,
and a loader that misses a function ends the process. So an object that may need them defines them.

Both do what F16C does: widening is exact, narrowing rounds to the nearest value and to even. A product with 2^112 moves
the exponent of a half to that of a float, for subnormal numbers as well. A sum with 0.5 rounds what becomes subnormal.
"""

DEFINITIONS = """
define float @__extendhfsf2(half %value) {
  %half = bitcast half %value to i16
  %word = zext i16 %half to i32
  %signbit = and i32 %word, 32768
  %sign = shl i32 %signbit, 16
  %magnitude = and i32 %word, 32767
  %shifted = shl i32 %magnitude, 13
  %unscaled = bitcast i32 %shifted to float
  %scaled = fmul float %unscaled, 0x46F0000000000000  ; 2^112
  %finite = bitcast float %scaled to i32
  %infinite = or i32 %finite, 2139095040  ; the exponent of infinity and NaN
  %isinfinite = icmp uge i32 %magnitude, 31744
  %chosen = select i1 %isinfinite, i32 %infinite, i32 %finite
  %signed = or i32 %chosen, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}

define half @__truncsfhf2(float %value) {
  %word = bitcast float %value to i32
  %sign = and i32 %word, 2147483648
  %magnitude = xor i32 %word, %sign
  %last = lshr i32 %magnitude, 13
  %odd = and i32 %last, 1
  %rebased = add i32 %magnitude, 3355447295  ; (15 - 127) << 23, and almost half of what is cut off
  %rounded = add i32 %rebased, %odd
  %normal = lshr i32 %rounded, 13
  %float = bitcast i32 %magnitude to float
  %sum = fadd float %float, 0.5
  %sumword = bitcast float %sum to i32
  %subnormal = sub i32 %sumword, 1056964608  ; the word of 0.5
  %issubnormal = icmp ult i32 %magnitude, 947912704  ; 2^-14
  %finite = select i1 %issubnormal, i32 %subnormal, i32 %normal
  %isnan = icmp ugt i32 %magnitude, 2139095040
  %infinite = select i1 %isnan, i32 32256, i32 31744
  %isinfinite = icmp uge i32 %magnitude, 1199570944  ; 2^16
  %chosen = select i1 %isinfinite, i32 %infinite, i32 %finite
  %halfsign = lshr i32 %sign, 16
  %signed = or i32 %chosen, %halfsign
  %half = trunc i32 %signed to i16
  %result = bitcast i16 %half to half
  ret half %result
}
"""
