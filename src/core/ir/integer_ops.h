// The arithmetic elementwise ops that also take integers and bools, which they compute in i64. The others take floats.
#pragma once
#include "weft/core/ir/op.h"

namespace weft {

constexpr bool TakesIntegers(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kSquare:
    case Op::kRelu:
    case Op::kPositive:
    case Op::kScale:
    case Op::kAddScalar:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kClampMin:
    case Op::kClampMax:
    case Op::kRemainder:
    case Op::kFloorDivide:
      return true;
    default:
      return false;
  }
}

}  // namespace weft
