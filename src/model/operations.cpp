#include "model/operations.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "model/composed_parts.h"

namespace inkling {

// Saves any struct of an operation for its backward pass. (Tensors that the operation returns must be saved with
// save_for_backward() instead, or they and the operation would own each other.)

template <typename State>
struct SavedState : torch::CustomClassHolder {
  explicit SavedState(State saved) : state(std::move(saved)) {}
  State state;
};

template <typename State>
void save_state(torch::autograd::AutogradContext* context, State state) {
  context->saved_data["state"] = c10::IValue::make_capsule(c10::make_intrusive<SavedState<State>>(std::move(state)));
}

template <typename State>
State& saved_state(torch::autograd::AutogradContext* context) {
  return static_cast<SavedState<State>&>(*context->saved_data["state"].toCapsule()).state;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The backend that an operation was called with, and its weights or whatever else is no tensor, for its backward pass.
template <typename Arguments>
struct With {
  const Backend& backend;
  Arguments arguments;
};

struct FusedEmbedding : Function<FusedEmbedding> {
  // The table is an argument only so that autograd records the operation: tokens themselves have no gradient.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*table*/, const at::Tensor& tokens,
                            const With<EmbeddingWeights>& state) {
    const at::Tensor ids = tokens.contiguous();
    context->save_for_backward({ids});
    save_state(context, state);
    return state.backend.embedding(ids, state.arguments);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto& [backend, weights] = saved_state<With<EmbeddingWeights>>(context);
    backend.embedding_backward(upstream[0].contiguous(), context->get_saved_variables()[0], weights);
    return {{}, {}, {}};
  }
};

void save(AutogradContext* context, const Normalized& forward, const With<NormWeights>& state) {
  context->save_for_backward({forward.sum, forward.mean, forward.rstd});
  save_state(context, state);
}

// dsum is undefined where nothing else used the sum.
at::Tensor backward_of(AutogradContext* context, const at::Tensor& dout, const at::Tensor& dsum) {
  const auto saved = context->get_saved_variables();
  const auto& [backend, weights] = saved_state<With<NormWeights>>(context);
  return backend.norm_backward(dout.contiguous(), dsum.defined() ? dsum.contiguous() : dsum,
                               {.sum = saved[0], .out = {}, .mean = saved[1], .rstd = saved[2]}, weights);
}

struct FusedNorm : Function<FusedNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const With<NormWeights>& state) {
    const Normalized forward = state.backend.norm(x.contiguous(), {}, state.arguments);
    save(context, forward, state);
    return forward.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    return {backward_of(context, upstream[0], {}), {}};
  }
};

struct FusedAddNorm : Function<FusedAddNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& branch,
                               const With<NormWeights>& state) {
    context->set_materialize_grads(false);
    const Normalized forward = state.backend.norm(x.contiguous(), branch.contiguous(), state.arguments);
    save(context, forward, state);
    return {forward.sum, forward.out};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor dx = backward_of(context, upstream[1], upstream[0]);
    return {dx, dx, {}};
  }
};

struct Conv {
  Weight weight;
  at::Tensor positions;
};

struct FusedConv : Function<FusedConv> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const With<Conv>& state) {
    const at::Tensor in = x.contiguous();
    context->save_for_backward({in});
    save_state(context, state);
    return state.backend.conv(in, state.arguments.weight, state.arguments.positions);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto& [backend, conv] = saved_state<With<Conv>>(context);
    const at::Tensor x = context->get_saved_variables()[0];
    return {backend.conv_backward(upstream[0].contiguous(), x, conv.weight, conv.positions), {}};
  }
};

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor with_last(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.sizes().vec();
  shape.back() = rows.size(-1);
  return rows.view(shape);
}

struct FusedLinear : Function<FusedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const With<LinearWeights>& state) {
    const at::Tensor rows = as_rows(x);
    context->save_for_backward({rows});
    save_state(context, state);
    return with_last(state.backend.linear(rows, state.arguments), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const auto& [backend, weights] = saved_state<With<LinearWeights>>(context);
    const at::Tensor dout = as_rows(upstream[0]).contiguous();
    return {with_last(backend.linear_backward(dout, rows, weights), upstream[0]), {}};
  }
};

struct HeadNorms {
  AttentionForm form;
  BlockWeights block;
};

struct FusedHeadNorms : Function<FusedHeadNorms> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const With<HeadNorms>& state) {
    const auto& [form, block] = state.arguments;
    const NormalizedHeads forward = state.backend.norm_heads(qkv, form, block);
    context->save_for_backward({qkv, forward.mean, forward.rstd});
    save_state(context, state);
    return forward.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto& [backend, arguments] = saved_state<With<HeadNorms>>(context);
    const NormalizedHeads forward = {.out = {}, .mean = saved[1], .rstd = saved[2]};
    return {backend.norm_heads_backward(upstream[0].contiguous(), saved[0], forward, arguments.form, arguments.block),
            {}};
  }
};

struct Rotate {
  AttentionForm form;
  Rotation rotation;
};

struct FusedRotate : Function<FusedRotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const With<Rotate>& state) {
    save_state(context, state);
    return state.backend.rotate(qkv, state.arguments.form, state.arguments.rotation, false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto& [backend, arguments] = saved_state<With<Rotate>>(context);
    return {backend.rotate(upstream[0], arguments.form, arguments.rotation, true), {}};
  }
};

struct FusedMlp : Function<FusedMlp> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const With<MlpWeights>& state,
                            bool recompute) {
    const at::Tensor rows = as_rows(x);
    const Widened forward = state.backend.mlp(rows, state.arguments, recompute);
    context->save_for_backward({rows, forward.pre, recompute ? at::Tensor() : forward.wide});
    save_state(context, state);
    return with_last(forward.out, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto& [backend, weights] = saved_state<With<MlpWeights>>(context);
    const at::Tensor dout = as_rows(upstream[0]).contiguous();
    return {with_last(backend.mlp_backward(dout, saved[0], saved[1], saved[2], weights), upstream[0]), {}, {}};
  }
};

struct AttentionState {
  const Backend& backend;
  AttentionForm form;
  DropoutPlace dropout;
  at::Tensor positions;
  std::int64_t longest_queries = 0, longest_keys = 0;
};

struct FusedAttention : Function<FusedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, AttentionState state) {
    const Attended forward = state.backend.attention(qkv.contiguous(), state.form, state.dropout, state.positions);
    context->save_for_backward(forward.saved);
    state.longest_queries = forward.longest_queries;
    state.longest_keys = forward.longest_keys;
    save_state(context, state);
    return forward.out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const AttentionState& state = saved_state<AttentionState>(context);
    const Attended forward = {.out = {},
                              .saved = context->get_saved_variables(),
                              .longest_queries = state.longest_queries,
                              .longest_keys = state.longest_keys};
    return {
        state.backend.attention_backward(upstream[0].contiguous(), forward, state.form, state.dropout, state.positions),
        {}};
  }
};

struct CountedDropout : Function<CountedDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const With<DropoutPlace>& state) {
    save_state(context, state);
    return state.backend.dropout(x, state.arguments);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto& [backend, place] = saved_state<With<DropoutPlace>>(context);
    return {backend.dropout(upstream[0], place), {}};
  }
};

struct HeadOf {
  Weight table;
  double softcap;
};

struct FusedHead : Function<FusedHead> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& targets,
                            const With<HeadOf>& state) {
    const auto& [table, softcap] = state.arguments;
    const Scored forward = state.backend.head(as_rows(x), targets.reshape({-1}).contiguous(), table, softcap);
    context->save_for_backward({x, forward.gradients});
    save_state(context, state);
    return forward.loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const auto& [backend, head] = saved_state<With<HeadOf>>(context);
    return {backend.head_backward(upstream[0], as_rows(x), saved[1], head.table).view_as(x), {}, {}};
  }
};

struct RecomputedState {
  TensorFunction block;
  Pass pass;  // as it was before, so that the same elements are dropped again
};

struct Recomputed : Function<Recomputed> {
  static variable_list forward(AutogradContext* context, at::TensorList in, const TensorFunction& block, Pass& pass) {
    context->set_materialize_grads(false);
    context->save_for_backward(in.vec());
    save_state(context, RecomputedState{block, pass});
    const at::NoGradGuard no_gradient;
    return block(in.vec(), pass);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    Tensors in;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      in.push_back(saved.detach().set_requires_grad(true));
    }
    auto& [block, pass] = saved_state<RecomputedState>(context);
    const at::AutoGradMode with_gradient(true);
    const Tensors out = block(in, pass);
    variable_list outputs, gradients;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!upstream[i].defined()) continue;  // nothing goes on from it
      outputs.push_back(out[i]);
      gradients.push_back(upstream[i]);
    }
    torch::autograd::backward(outputs, gradients);
    variable_list result;
    for (const at::Tensor& each : in) result.push_back(each.grad());
    result.resize(result.size() + 2);  // block and pass have none
    return result;
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& tokens, const EmbeddingWeights& weights, const Pass& pass) {
  RECORD_FUNCTION("embedding", std::vector<c10::IValue>());
  const auto rows_of = [&pass](const at::Tensor& numbers, const EmbeddingWeights& tables) {
    return FusedEmbedding::apply(tables.tokens.value, numbers, With<EmbeddingWeights>{pass.backend, tables});
  };
  const at::Tensor& positions = pass.training.positions;
  if (!positions.defined() || !weights.positions.defined()) return rows_of(tokens, weights);
  return rows_of(tokens, {weights.tokens, {}}) + rows_of(positions, {weights.positions, {}});
}

at::Tensor norm(const at::Tensor& x, const NormWeights& weights, const Pass& pass) {
  RECORD_FUNCTION("norm", std::vector<c10::IValue>());
  return FusedNorm::apply(x, With<NormWeights>{pass.backend, weights});
}

ResidualStream add_norm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights, const Pass& pass) {
  RECORD_FUNCTION("add_norm", std::vector<c10::IValue>());
  const variable_list both = FusedAddNorm::apply(x, branch, With<NormWeights>{pass.backend, weights});
  return {both[0], both[1]};
}

at::Tensor conv(const at::Tensor& x, const Weight& weight, const Pass& pass) {
  if (!weight.defined()) return x;
  RECORD_FUNCTION("conv", std::vector<c10::IValue>());
  return FusedConv::apply(x, With<Conv>{pass.backend, {weight, pass.training.positions}});
}

at::Tensor linear(const at::Tensor& x, const LinearWeights& weights, const Pass& pass) {
  RECORD_FUNCTION("linear", std::vector<c10::IValue>());
  return FusedLinear::apply(x, With<LinearWeights>{pass.backend, weights});
}

at::Tensor queries_keys_values(const at::Tensor& x, const BlockWeights& block, const AttentionForm& form,
                               const Pass& pass) {
  at::Tensor qkv = linear(x, block.c_attn, pass);
  if (block.q_norm.weight.defined()) {
    RECORD_FUNCTION("head_norms", std::vector<c10::IValue>());
    qkv = FusedHeadNorms::apply(qkv, With<HeadNorms>{pass.backend, {form, block}});
  }
  if (!pass.rotation.defined()) return qkv;
  RECORD_FUNCTION("rotate", std::vector<c10::IValue>());
  return FusedRotate::apply(qkv, With<Rotate>{pass.backend, {form, pass.rotation}});
}

at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights, const Pass& pass) {
  RECORD_FUNCTION("mlp", std::vector<c10::IValue>());
  if (!pass.backend.activates(weights.activation)) {
    return linear(activate(linear(x, weights.c_fc, pass), weights.activation), weights.c_proj, pass);
  }
  return FusedMlp::apply(x, With<MlpWeights>{pass.backend, weights}, pass.training.recompute == Recompute::gelu);
}

at::Tensor attention(const at::Tensor& qkv, const AttentionForm& form, Pass& pass) {
  RECORD_FUNCTION("attention", std::vector<c10::IValue>());
  if (!pass.backend.attends(qkv.scalar_type(), form, pass.training.positions.defined())) {
    return composed_attention(qkv, form, pass);
  }
  return FusedAttention::apply(qkv, AttentionState{pass.backend, form, pass.next_dropout(), pass.training.positions});
}

at::Tensor dropout(const at::Tensor& x, Pass& pass) {
  if (pass.training.dropout == 0.0) return x;
  return CountedDropout::apply(x, With<DropoutPlace>{pass.backend, pass.next_dropout()});
}

at::Tensor head_loss(const at::Tensor& x, const Weight& table, const at::Tensor& targets, double softcap,
                     const Pass& pass) {
  RECORD_FUNCTION("head_loss", std::vector<c10::IValue>());
  return FusedHead::apply(x, targets, With<HeadOf>{pass.backend, {table, softcap}});
}

Tensors run_block(const Tensors& in, const TensorFunction& block, Pass& pass) {
  if (pass.training.recompute != Recompute::block) return block(in, pass);
  return Recomputed::apply(at::TensorList(in), block, pass);
}

}  // namespace inkling
