//===- Coefficients.h - Constants of the elementary functions --*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written by tools/functions/derive.py: do not edit. The bracket gives log2 of
// the largest weighted error of the fit before the table was tuned.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H
#define REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H

#include <array>
#include <cstdint>

// The tuner compiles the same formulas with coefficients that it can change.
#ifndef REPRO_FUNCTION_TABLE
#define REPRO_FUNCTION_TABLE inline constexpr
#endif

namespace mlir::repro::functions {

/// An f32 input and its result, as bits.
struct Patch {
  uint32_t input, result;
};

// clang-format off
inline constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;
inline constexpr double kLn2ShortHi = 0x1.62e42fefa3800p-1;
inline constexpr double kLn2ShortLo = 0x1.ef35793c76730p-45;
inline constexpr double kLog10Of2Hi = 0x1.34413509f79ffp-2;
inline constexpr double kLog10Of2Lo = -0x1.9dc1da994fd21p-59;
inline constexpr double kLog10Of2ShortHi = 0x1.34413509f7800p-2;
inline constexpr double kLog10Of2ShortLo = 0x1.fef311f12b358p-46;
inline constexpr double kLog2Of10Hi = 0x1.a934f0979a371p+1;
inline constexpr double kLog2Of10Lo = 0x1.7f2495fb7fa6dp-53;
inline constexpr double kLog2EShortHi = 0x1.7154766000000p+0;
inline constexpr double kLog2EShortLo = -0x1.a8fa03d1105e0p-29;
inline constexpr double kLog10EShortHi = 0x1.bcb7b16000000p-2;
inline constexpr double kLog10EShortLo = -0x1.b235e39ab2a91p-31;
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;
inline constexpr double kPiHi = 0x1.921fb54442d18p+1;
inline constexpr double kPiLo = 0x1.1a62633145c07p-53;
inline constexpr double kHalfPiHi = 0x1.921fb54442d18p+0;
inline constexpr double kHalfPiLo = 0x1.1a62633145c07p-54;
inline constexpr double kHalfPiLo2 = -0x1.f1976b7ed8fbcp-110;
inline constexpr double kPiLo2 = -0x1.f1976b7ed8fbcp-109;
inline constexpr double kQuarterPiHi = 0x1.921fb54442d18p-1;
inline constexpr double kQuarterPiLo = 0x1.1a62633145c07p-55;
inline constexpr double kInvPi = 0x1.45f306dc9c883p-2;
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kTwoOverSqrtPiHi = 0x1.20dd750429b6dp+0;
inline constexpr double kTwoOverSqrtPiLo = 0x1.1ae3a914fed80p-56;
inline constexpr double kLn2SixteenthHi = 0x1.62e42fefa39efp-5;
inline constexpr double kLn2SixteenthLo = 0x1.abc9e3b39803fp-60;
inline constexpr double kCubeRoot2 = 0x1.428a2f98d728bp+0;
inline constexpr double kCubeRoot4 = 0x1.965fea53d6e3dp+0;
inline constexpr double kTanPi8 = 0x1.a827999fcef32p-2;
inline constexpr double kTanThreePi8 = 0x1.3504f333f9de6p+1;

// 1/pi, rounded to 204 bits after the binary point, in words of 32 bits. The 52
// bits that follow are 0.
inline constexpr uint32_t kInvPiWords[] = {0x517cc1b7, 0x27220a94, 0xfe13abe8, 0xfa9a6ee0, 0x6db14acc, 0x9e21c820, 0xff300000, 0x00000000};

// (e^r - 1 - r) / r^2, |r| <= log(2)/2 [-51.33]
REPRO_FUNCTION_TABLE double kExp[] = {
    0x1.ffffffffffdf2p-2,
    0x1.5555555550598p-3,
    0x1.55555555a6212p-5,
    0x1.1111112608bfbp-7,
    0x1.6c16c077dae49p-10,
    0x1.a0198c56c0bb5p-13,
    0x1.a01c31d560dcap-16,
    0x1.72ea13011ba3ap-19,
    0x1.2677021d2864dp-22,
};

// (e^r - 1 - r) / r^2, |r| <= log(2)/2 [-57.75]
REPRO_FUNCTION_TABLE double kExpm1[] = {
    0x1.000000000000bp-1,
    0x1.555555555550fp-3,
    0x1.55555555502a5p-5,
    0x1.1111111122b4dp-7,
    0x1.6c16c1852a4d3p-10,
    0x1.a01a0144951d3p-13,
    0x1.a01997cc14d22p-16,
    0x1.71deec72940f7p-19,
    0x1.28af3c914bc67p-22,
    0x1.add74cf57f726p-26,
};

// (e^r - 1 - r) / r^2, |r| <= log(2)/2 [-57.75]
REPRO_FUNCTION_TABLE double kTanh[] = {
    0x1.000000000000bp-1,
    0x1.555555555550fp-3,
    0x1.55555555502a5p-5,
    0x1.1111111122b4dp-7,
    0x1.6c16c1852a4d3p-10,
    0x1.a01a0144951d3p-13,
    0x1.a01997cc14d22p-16,
    0x1.71deec72940f7p-19,
    0x1.28af3c914bc67p-22,
    0x1.add74cf57f726p-26,
};

// (e^r - 1 - r) / r^2, |r| <= log(2)/2 [-57.75]
REPRO_FUNCTION_TABLE double kErfcExp[] = {
    0x1.000000000000bp-1,
    0x1.555555555550fp-3,
    0x1.55555555502a5p-5,
    0x1.1111111122b4dp-7,
    0x1.6c16c1852a4d3p-10,
    0x1.a01a0144951d3p-13,
    0x1.a01997cc14d22p-16,
    0x1.71deec72940f7p-19,
    0x1.28af3c914bc67p-22,
    0x1.add74cf57f726p-26,
};

// (2.0^r - 1) / r [-51.84]
REPRO_FUNCTION_TABLE double kExp2[] = {
    0x1.62e42fefa3a1ep-1,
    0x1.ebfbdff82c42ap-3,
    0x1.c6b08d703cf86p-5,
    0x1.3b2ab6fbd0c27p-7,
    0x1.5d87fe9ccd731p-10,
    0x1.4309127e999fdp-13,
    0x1.ffcb563be240cp-17,
    0x1.62c11ed853360p-20,
    0x1.b673c744bee9fp-24,
    0x1.e3e8889e376dep-28,
};

// (10.0^r - 1) / r [-51.82]
REPRO_FUNCTION_TABLE double kExp10[] = {
    0x1.26bb1bbb55537p+1,
    0x1.53524c73ce99ep+1,
    0x1.0470591ddb7a2p+1,
    0x1.2bd760a0022acp+0,
    0x1.1429ffee5e4cbp-1,
    0x1.a7ed6fe61fc95p-3,
    0x1.16e48514bca69p-4,
    0x1.4117922b2fb42p-6,
    0x1.49936b25e6662p-8,
    0x1.2e1852acbae6dp-10,
};

// (sinh r - r) / r^3, z = r^2, |r| <= log(2)/2 [-64.81]
REPRO_FUNCTION_TABLE double kSinhOdd[] = {
    0x1.5555555555555p-3,
    0x1.111111111130dp-7,
    0x1.a01a019f11392p-13,
    0x1.71de3e42cff57p-19,
    0x1.ae56687089d87p-26,
    0x1.741772632b21bp-33,
};

// (cosh r - 1) / r^2, z = r^2, |r| <= log(2)/2 [-69.99]
REPRO_FUNCTION_TABLE double kSinhEven[] = {
    0x1.0000000000000p-1,
    0x1.5555555555558p-5,
    0x1.6c16c16c1500bp-10,
    0x1.a01a01ad76d4cp-16,
    0x1.27e4cc2815306p-22,
    0x1.1f8bb264477c0p-29,
};

// (sinh r - r) / r^3, z = r^2, |r| <= log(2)/2 [-64.81]
REPRO_FUNCTION_TABLE double kCoshOdd[] = {
    0x1.5555555555555p-3,
    0x1.111111111130dp-7,
    0x1.a01a019f11392p-13,
    0x1.71de3e42cff57p-19,
    0x1.ae56687089d87p-26,
    0x1.741772632b21bp-33,
};

// (cosh r - 1) / r^2, z = r^2, |r| <= log(2)/2 [-69.99]
REPRO_FUNCTION_TABLE double kCoshEven[] = {
    0x1.0000000000000p-1,
    0x1.5555555555558p-5,
    0x1.6c16c16c1500bp-10,
    0x1.a01a01ad76d4cp-16,
    0x1.27e4cc2815306p-22,
    0x1.1f8bb264477c0p-29,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kLog[] = {
    0x1.5555555554e16p-1,
    0x1.999999997d465p-2,
    0x1.249249423e2fdp-2,
    0x1.c71c51d69c215p-3,
    0x1.74664810e5073p-3,
    0x1.39a0e726fac4bp-3,
    0x1.2f0cf7880fabcp-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kLog1p[] = {
    0x1.555555555563dp-1,
    0x1.999999997de1ap-2,
    0x1.249249423a47dp-2,
    0x1.c71c51d6973ccp-3,
    0x1.74664810eedbdp-3,
    0x1.39a0e725fae0ep-3,
    0x1.2f0cf785c9372p-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kLog2[] = {
    0x1.5555555555594p-1,
    0x1.999999997f73ap-2,
    0x1.249249423b409p-2,
    0x1.c71c51d655367p-3,
    0x1.74664811b666fp-3,
    0x1.39a0e726cae64p-3,
    0x1.2f0cf7881d59dp-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kLog10[] = {
    0x1.5555555555885p-1,
    0x1.999999997bb17p-2,
    0x1.24924942454a2p-2,
    0x1.c71c51d64ed06p-3,
    0x1.746648120ed1bp-3,
    0x1.39a0e7274ccf8p-3,
    0x1.2f0cf78ac01e5p-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kAsinh[] = {
    0x1.5555555555594p-1,
    0x1.999999997f73ap-2,
    0x1.249249423b409p-2,
    0x1.c71c51d655367p-3,
    0x1.74664811b666fp-3,
    0x1.39a0e726cae64p-3,
    0x1.2f0cf7881d59dp-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-58.44]
REPRO_FUNCTION_TABLE double kAcosh[] = {
    0x1.5555555555594p-1,
    0x1.999999997f73ap-2,
    0x1.249249423b409p-2,
    0x1.c71c51d655367p-3,
    0x1.74664811b666fp-3,
    0x1.39a0e726cae64p-3,
    0x1.2f0cf7881d59dp-3,
};

// (2 atanh s - 2 s) / s^3, z = s^2 [-61.0]
REPRO_FUNCTION_TABLE double kAtanh[] = {
    0x1.555555555554cp-1,
    0x1.999999999d095p-2,
    0x1.24924921121c8p-2,
    0x1.c71c753e2c690p-3,
    0x1.745c241991e28p-3,
    0x1.3b3a7b763b0fcp-3,
    0x1.0d7f282f28df4p-3,
    0x1.1d74cf3b3a9f8p-3,
};

// (sin r - r) / r^3, z = r^2, |r| <= pi/2 [-61.51]
REPRO_FUNCTION_TABLE double kSin[] = {
    -0x1.555555555554ep-3,
    0x1.1111111111045p-7,
    -0x1.a01a01a015e7fp-13,
    0x1.71de3a53f9e01p-19,
    -0x1.ae6455b86a978p-26,
    0x1.6124217d66ea1p-33,
    -0x1.ae671865f74efp-41,
    0x1.9028fb8997a14p-49,
    -0x1.78802168ab94bp-58,
};

// (sin r - r) / r^3, z = r^2, |r| <= pi/2 [-61.51]
REPRO_FUNCTION_TABLE double kCos[] = {
    -0x1.5555555555555p-3,
    0x1.11111111110dbp-7,
    -0x1.a01a01a016f5dp-13,
    0x1.71de3a53faac7p-19,
    -0x1.ae6455b871315p-26,
    0x1.6124217d668dcp-33,
    -0x1.ae671865e2fd9p-41,
    0x1.9028fb8990ce9p-49,
    -0x1.78802166b93d9p-58,
};

// (sin r - r) / r^3, z = r^2, |r| <= pi/4 [-62.9]
REPRO_FUNCTION_TABLE double kTanSin[] = {
    -0x1.5555555555555p-3,
    0x1.1111111111089p-7,
    -0x1.a01a01a0065e2p-13,
    0x1.71de3a3f6caabp-19,
    -0x1.ae643c5f20eb1p-26,
    0x1.611415fc69a09p-33,
    -0x1.a51723f449e3ep-41,
};

// (cos r - 1) / r^2, z = r^2, |r| <= pi/4 [-64.05]
REPRO_FUNCTION_TABLE double kTanCos[] = {
    -0x1.0000000000000p-1,
    0x1.555555555554bp-5,
    -0x1.6c16c16c15046p-10,
    0x1.a01a019c9698dp-16,
    -0x1.27e4f7f810072p-22,
    0x1.1ee9e0a8d8c99p-29,
    -0x1.8fa9277d6bb32p-37,
};

// (asin w - w) / w^3, z = w^2, |w| <= 1/2 [-59.75]
REPRO_FUNCTION_TABLE double kAsin[] = {
    0x1.5555555555577p-3,
    0x1.333333332e1d7p-4,
    0x1.6db6db72067c3p-5,
    0x1.f1c71a9a612bcp-6,
    0x1.6e8bde357e3ffp-6,
    0x1.1c49fd309612cp-6,
    0x1.ca1e4bde65f16p-7,
    0x1.759020e3f57d1p-7,
    0x1.60fff6c6f49f2p-7,
    0x1.e995aa7ea282cp-9,
    0x1.627f8e45fcf05p-6,
    -0x1.5667f5d274d99p-6,
    0x1.0ac783d4e1577p-5,
};

// (asin w - w) / w^3, z = w^2, |w| <= 1/2 [-59.75]
REPRO_FUNCTION_TABLE double kAcos[] = {
    0x1.5555555555577p-3,
    0x1.333333332e1d7p-4,
    0x1.6db6db72067c3p-5,
    0x1.f1c71a9a612bcp-6,
    0x1.6e8bde357e3ffp-6,
    0x1.1c49fd309612cp-6,
    0x1.ca1e4bde65f16p-7,
    0x1.759020e3f57d1p-7,
    0x1.60fff6c6f49f2p-7,
    0x1.e995aa7ea282cp-9,
    0x1.627f8e45fcf05p-6,
    -0x1.5667f5d274d99p-6,
    0x1.0ac783d4e1577p-5,
};

// (atan w - w) / w^3, z = w^2, |w| <= tan(pi/8) [-63.77]
REPRO_FUNCTION_TABLE double kAtan[] = {
    -0x1.5555555555554p-2,
    0x1.99999999995bcp-3,
    -0x1.2492492471fbap-3,
    0x1.c71c71b5e7cc4p-4,
    -0x1.745d148f18e20p-4,
    0x1.3b136ae471a2bp-4,
    -0x1.110c47b906330p-4,
    0x1.e16f091383a42p-5,
    -0x1.ab6c27d119e93p-5,
    0x1.70aca06c7b256p-5,
    -0x1.11accb51e1dc7p-5,
    0x1.efdc85f9f8c68p-7,
};

// erf(x) / x, u = x^2 - 7.6875, |x| <= 3.92 [-53.53]
REPRO_FUNCTION_TABLE double kErf[] = {
    0x1.714a947278f72p-2,
    -0x1.7fc077d0f9d8dp-6,
    0x1.294ee9bf939dfp-9,
    -0x1.f7e50687db6adp-13,
    0x1.b34e94ebf42d2p-16,
    -0x1.72105883000f1p-19,
    0x1.2ed49990b7051p-22,
    -0x1.d68dd7d380b55p-26,
    0x1.585eb944633b7p-29,
    -0x1.d8febbd0d4355p-33,
    0x1.3078ea5f6d45fp-36,
    -0x1.6f99cd22dec9dp-40,
    0x1.a0d18df562e61p-44,
    -0x1.bcc18e4ed24d8p-48,
    0x1.bf92f4847e6cfp-52,
    -0x1.a9c334f8867efp-56,
    0x1.7fca814674399p-60,
    -0x1.48ae8a8e82e6bp-64,
    0x1.0b9ae205f0a3fp-68,
    -0x1.9dc5b81172d1bp-73,
    0x1.342a80aea11c0p-77,
    -0x1.c5035a027ca9cp-82,
    0x1.2eac09d49b549p-86,
    -0x1.3f2363d2c09aep-91,
    0x1.b55c8d929f595p-96,
    -0x1.eacc40e0dd32ep-100,
    0x1.060f7b30aae4ap-104,
};

// (erf(x) - (2/sqrt(pi)) x) / x^3, z = x^2, |x| <= 1/2 [-64.61]
REPRO_FUNCTION_TABLE double kErfcSmall[] = {
    -0x1.812746b0379e7p-2,
    0x1.ce2f21a042c58p-4,
    -0x1.b82ce3128e02fp-6,
    0x1.565bcd105eb97p-8,
    -0x1.c02db4d6d89cap-11,
    0x1.f9a35f851a844p-14,
    -0x1.f4db9e81f5b08p-17,
    0x1.bad04f266ca4fp-20,
    -0x1.6bdbb0b5940efp-23,
    0x1.3bfffac75b134p-26,
};

// e^(x^2) erfc(x) (x + 4), t = (x - 4) / (x + 4), 1/2 <= x <= 10.1 [-53.95]
REPRO_FUNCTION_TABLE double kErfcx[] = {
    0x1.18932bf08e154p+0,
    -0x1.f3fe31ecb49bfp-1,
    0x1.8be202d26c775p-1,
    -0x1.14eacb1ad0309p-1,
    0x1.52cac2370ca77p-2,
    -0x1.645fd8a4c3dafp-3,
    0x1.38dbd2ca6448ap-4,
    -0x1.b00c0521ad19ep-6,
    0x1.908f45c79c136p-8,
    -0x1.269b8673b29dbp-12,
    -0x1.dd27a382739e4p-12,
    0x1.72d1ecf0a6fd7p-13,
    -0x1.e8d1c0975998bp-19,
    -0x1.3d2d523fcc15ep-16,
    0x1.39f6243652558p-18,
    0x1.9dada0e826859p-20,
    -0x1.76c1f6665bff6p-21,
    -0x1.2ac262671dd84p-23,
    -0x1.0f9903423aacep-23,
    -0x1.8a51018b523aap-23,
    -0x1.00697405aeabep-24,
};

// m^(-1/3), 1 <= m <= 2 [-17.24]
REPRO_FUNCTION_TABLE double kCbrtSeed[] = {
    0x1.c74242f935d30p+0,
    -0x1.8e779141c19d6p+0,
    0x1.3b07abbf9bab4p+0,
    -0x1.2d7e6742e2472p-1,
    0x1.396aaa305fb09p-3,
    -0x1.103ba49cebd4dp-6,
};

// log(2), low part [-106.0]
REPRO_FUNCTION_TABLE double kLogLn2[] = {
    0x1.fb30bdb310de8p-55,
};

// log(2), low part [-106.0]
REPRO_FUNCTION_TABLE double kLog1pLn2[] = {
    0x1.eebae9314e771p-45,
};

// 2 log2(e) / (2 j + 1), as unevaluated sums
inline constexpr double kLog2Pair[][2] = {
    {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55},
    {0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55},
    {0x1.2776c50ef9bfep-1, 0x1.e4b29ccc535d4p-55},
    {0x1.a61762a7aded9p-2, 0x1.fb22e490ee2f0p-57},
    {0x1.484b13d7c02a9p-2, -0x1.e55fc724e0a2cp-60},
    {0x1.0c9a84994022dp-2, 0x1.42b91d166906ap-57},
    {0x1.c68f568d31760p-3, 0x1.ce23c4e96378ep-59},
    {0x1.89f3b1694cffep-3, -0x1.2339777c86c81p-60},
    {0x1.5b9ac9b743f0dp-3, 0x1.0d0e5e1d8f408p-57},
    {0x1.3703c1f4d0ffep-3, 0x1.926b2bc99b1edp-57},
    {0x1.1964ec6fc9491p-3, -0x1.5893679f61360p-58},
    {0x1.00ecd7e080215p-3, -0x1.110d2c873714bp-59},
    {0x1.d8be0817f5ffep-4, -0x1.c5489eb91437ap-58},
    {0x1.b5b96fca558e1p-4, 0x1.2ce2af6797f27p-58},
    {0x1.9789566cee8d2p-4, -0x1.f30a72c383f5fp-59},
    {0x1.7d3e699fb5deep-4, -0x1.f1ae2d6bf787bp-58},
    {0x1.66235b77002e7p-4, -0x1.f8bd07c43d43bp-60},
    {0x1.51ac4eec8b247p-4, 0x1.97a78ea05f460p-58},
    {0x1.3f6ba49a91758p-4, 0x1.2e9794c137876p-58},
    {0x1.2f0a39b3764ebp-4, -0x1.084f5f2e6f6bep-58},
};

// 1 / j!, as unevaluated sums
inline constexpr double kExpPair[][2] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.0000000000000p-1, 0x0.0p+0},
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
    {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
    {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
    {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
    {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
};

// (-1)^j / (2 j + 1), j >= 1, as unevaluated sums
inline constexpr double kAtanPair[][2] = {
    {-0x1.5555555555555p-2, -0x1.5555555555555p-56},
    {0x1.999999999999ap-3, -0x1.999999999999ap-57},
    {-0x1.2492492492492p-3, -0x1.2492492492492p-57},
    {0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58},
    {-0x1.745d1745d1746p-4, 0x1.745d1745d1746p-59},
    {0x1.3b13b13b13b14p-4, -0x1.3b13b13b13b14p-58},
    {-0x1.1111111111111p-4, -0x1.1111111111111p-60},
    {0x1.e1e1e1e1e1e1ep-5, 0x1.e1e1e1e1e1e1ep-61},
    {-0x1.af286bca1af28p-5, -0x1.af286bca1af28p-59},
    {0x1.8618618618618p-5, 0x1.8618618618618p-59},
    {-0x1.642c8590b2164p-5, -0x1.642c8590b2164p-60},
    {0x1.47ae147ae147bp-5, -0x1.eb851eb851eb8p-61},
};

// atan(j / 8), as unevaluated sums
inline constexpr double kAtanEighths[][2] = {
    {0x0.0p+0, 0x0.0p+0},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};

inline constexpr std::array<Patch, 2> kAcosPatches = {{{0x328885a3, 0x3fc90fdb}, {0x39826222, 0x3fc907b5}}};
inline constexpr std::array<Patch, 2> kAcoshPatches = {{{0x655890d3, 0x4254d1f9}, {0x6eb1a8ec, 0x42845a89}}};
inline constexpr std::array<Patch, 0> kAsinPatches = {};
inline constexpr std::array<Patch, 3> kAsinhPatches = {{{0x4bdd65a5, 0x418f034b}, {0x655890d3, 0x4254d1f9}, {0x6eb1a8ec, 0x42845a89}}};
inline constexpr std::array<Patch, 1> kAtanPatches = {{{0x3d8d6b23, 0x3d8d31c3}}};
inline constexpr std::array<Patch, 0> kAtanhPatches = {};
inline constexpr std::array<Patch, 0> kCbrtPatches = {};
inline constexpr std::array<Patch, 1> kCosPatches = {{{0x6115cb11, 0x3f78142f}}};
inline constexpr std::array<Patch, 0> kCoshPatches = {};
inline constexpr std::array<Patch, 0> kErfPatches = {};
inline constexpr std::array<Patch, 1> kErfcPatches = {{{0xb76c9f62, 0x3f800085}}};
inline constexpr std::array<Patch, 0> kExpPatches = {};
inline constexpr std::array<Patch, 0> kExp10Patches = {};
inline constexpr std::array<Patch, 1> kExp2Patches = {{{0xbcf3a937, 0x3f7ac6b1}}};
inline constexpr std::array<Patch, 0> kExpm1Patches = {};
inline constexpr std::array<Patch, 2> kLogPatches = {{{0x4c5d65a5, 0x418f034b}, {0x6f31a8ec, 0x42845a89}}};
inline constexpr std::array<Patch, 1> kLog10Patches = {{{0x0efeee7a, 0xc1e99d23}}};
inline constexpr std::array<Patch, 7> kLog1pPatches = {{{0x35400003, 0x353fffff}, {0x3710001b, 0x370ffff3}, {0x65d890d3, 0x4254d1f9}, {0x6f31a8ec, 0x42845a89}, {0xb53ffffd, 0xb5400001}, {0xb70fffe5, 0xb710000d}, {0xbb0ec8c4, 0xbb0ef0a5}}};
inline constexpr std::array<Patch, 0> kLog2Patches = {};
inline constexpr std::array<Patch, 0> kRsqrtPatches = {};
inline constexpr std::array<Patch, 2> kSinPatches = {{{0x46199998, 0xbeb1fa5d}, {0xc6199998, 0x3eb1fa5d}}};
inline constexpr std::array<Patch, 1> kSinhPatches = {{{0x3a1285ff, 0x3a1285ff}}};
inline constexpr std::array<Patch, 0> kTanPatches = {};
inline constexpr std::array<Patch, 0> kTanhPatches = {};
// clang-format on

} // namespace mlir::repro::functions

#endif // REPRO_CODEGEN_FUNCTIONS_COEFFICIENTS_H
